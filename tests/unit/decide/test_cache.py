"""The verdict on a trial's cache, from everything that is known of the trial."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.manifest_builder import order_of, phase, spec_of
from support.virtual_load import Replica, Trial, play
from tare.api.reasons import Reason
from tare.decide.cache import Evidence, block_sizes, judge_trial
from tare.measure.cache import CacheVerdict, CacheWord
from tare.measure.rows import OUTCOMES, Row, Rows, read_rows
from tare.measure.servers import ServerCounts

if TYPE_CHECKING:
    from tare.plan.cache.outline import Outline

BLOCK = 16
FIELDS: dict[str, Any] = {
    "endpoint": {"resetKvCache": True, "server": "vllm", "extraBody": {"temperature": 0}},
    "dataset": {"prompts": {"isl": 400, "osl": 4}, "prefixPrompts": {"sharedSystemLength": 400}},
    "phases": [phase(name="warmup", kind="warmup", requests=8), phase(requests=40)],
}
ORDER = order_of(**FIELDS)
TRIAL = play(ORDER, [Replica(block=BLOCK)])


def server(name: str = "qwen-0", *, hits: float = 0, **after: float) -> ServerCounts:
    """What a server told before and after the trial."""
    before = {"prefix_cache_hits": 1000.0, "started_at": 1.0, "restarts": 0.0}
    facts = {"kv_block_size": float(BLOCK), "kv_blocks": 9e4, "engines": 1.0}
    return ServerCounts(
        replica=name,
        before=before,
        after={**before, **facts, "prefix_cache_hits": 1000.0 + hits, **after},
    )


def described(outline: Outline) -> Any:
    """The description as it arrives from a worker."""
    return orjson.loads(orjson.dumps({"outline": outline}))


def judged(trial: Trial = TRIAL, *, servers: Any = None, **fields: Any) -> CacheVerdict:
    evidence = Evidence(
        results=trial.results,
        dataset=described(trial.outline),
        servers=(server(),) if servers is None else servers,
        replicas=1,
        skew={},
    )
    return judge_trial(spec_of(**FIELDS), ORDER.phases, replace(evidence, **fields))


def silent(trial: Trial) -> Trial:
    """The same from a server that leaves cached tokens out of its answers."""
    results = [
        replace(r, histograms={"prompt_tokens": r.histograms["prompt_tokens"]}, rows={})
        for r in trial.results
    ]
    return replace(trial, results=results)


def test_a_trial_that_found_what_it_left_itself_is_as_planned() -> None:
    found = judged()
    assert (found.verdict, found.reason) == (CacheWord.AS_PLANNED, Reason.AS_PLANNED)
    assert found.source == "usage"
    assert [phase.found for phase in found.phases] == TRIAL.cached
    assert [phase.doubt for phase in found.phases][1] == ""
    assert any("whole blocks of 16 tokens (as the servers say)" in s for s in found.assumptions)


@pytest.mark.parametrize(
    "evidence",
    [
        {"servers": (server(restarts=1.0),)},
        {"servers": (server(started_at=2.0),)},
        {"servers": (server(hits=-1),)},
    ],
)
def test_a_server_that_restarted_leaves_nothing_to_be_said(evidence: dict[str, Any]) -> None:
    found = judged(**evidence)
    assert (found.verdict, found.reason) == (CacheWord.UNVERIFIED, Reason.SERVER_RESTARTED)
    assert found.message.startswith("qwen-0 restarted during the trial")


def test_the_counters_of_all_replicas_speak_where_answers_do_not() -> None:
    cached = sum(TRIAL.cached)
    found = judged(silent(TRIAL), servers=(server(hits=cached),))
    assert (found.reason, found.source) == (Reason.AS_PLANNED, "counters")
    more = judged(silent(TRIAL), servers=(server(hits=2 * cached),))
    assert more.reason is Reason.CONTAMINATED
    part = judged(silent(TRIAL), servers=(server(hits=cached),), replicas=2)
    assert part.reason is Reason.NOT_REPORTED, "one of two replicas does not tell"


UNWATCHED = [
    replace(server(), before={}),
    replace(server(), after={}),
]


@pytest.mark.parametrize("one", UNWATCHED, ids=["only after", "only before"])
def test_where_a_restart_would_go_unnoticed_nothing_passes(one: ServerCounts) -> None:
    found = judged(servers=(one,))
    assert (found.verdict, found.reason) == (CacheWord.UNVERIFIED, Reason.NOT_DECIDABLE)
    assert found.message.startswith("whether qwen-0 restarted during the trial is not known")
    assert [phase.found for phase in found.phases] == TRIAL.cached, "the numbers stay"


def test_what_an_older_operator_did_not_write_down_lets_nothing_pass() -> None:
    assert judged(servers=()).reason is Reason.AS_PLANNED, "no replica tells anything"
    found = Evidence(
        results=TRIAL.results, dataset=described(TRIAL.outline), servers=None, replicas=1, skew={}
    )
    verdict = judge_trial(spec_of(**FIELDS), ORDER.phases, found)
    assert verdict.reason is Reason.NOT_DECIDABLE
    assert verdict.message.startswith("whether the servers restarted during the trial")


def test_too_much_is_too_much_whether_a_server_restarted_or_not() -> None:
    """A restart only empties caches."""
    alone = {**FIELDS, "phases": [FIELDS["phases"][1]]}
    evidence = Evidence(
        results=TRIAL.results[1:],
        dataset=described(TRIAL.outline),
        servers=(UNWATCHED[0],),
        replicas=1,
        skew={},
    )
    found = judge_trial(spec_of(**alone), order_of(**alone).phases, evidence)
    assert found.reason is Reason.CONTAMINATED, "the warm-up is nowhere in the plan"


TWO_WORKERS = {**FIELDS, "workers": {"replicas": 2}}
ONCE = {**TWO_WORKERS, "phases": [phase(requests=40, concurrency=1)]}


def judged_for(fields: dict[str, Any], trial: Trial, **skew: float) -> CacheVerdict:
    evidence = Evidence(
        results=trial.results,
        dataset=described(trial.outline),
        servers=(server(),),
        replicas=1,
        skew=skew,
    )
    return judge_trial(spec_of(**fields), order_of(**fields).phases, evidence)


def test_an_order_that_nobody_knows_accuses_nobody() -> None:
    """One worker sent the system prompt first; by its own clock the other one was earlier."""
    trial = play(order_of(**ONCE), [Replica(block=BLOCK)])
    (result,) = trial.results
    rows = [*read_rows(result.rows)]
    first = min(rows, key=lambda row: row.due + (row.lag or 0))
    moved = Rows()
    for row in rows:
        due = row.due + 10_000_000 if row == first else row.due
        moved.add_all([[v] for v in (row.number, row.entry, due, row.lag or 0, *_rest(row))])
    shuffled = replace(trial, results=[replace(result, rows=moved.to_json())])
    assert judged_for(ONCE, shuffled, profiling=0.0).reason is Reason.CONTAMINATED
    unknown = judged_for(ONCE, shuffled)
    assert unknown.reason is not Reason.CONTAMINATED
    assert unknown.assumptions[-1].startswith("The operator restarted at the start of phase prof")


def _rest(row: Row) -> tuple[int, ...]:
    values = (row.time_to_first_token, row.latency, row.output_tokens, row.cached_tokens)
    return (*(-1 if value is None else value for value in values), OUTCOMES.index(row.outcome))


def test_the_order_of_one_workers_requests_is_its_own() -> None:
    assert not any("restarted" in text for text in judged().assumptions)


def test_without_a_description_nothing_is_decided() -> None:
    assert judged(dataset={}).reason is Reason.NOT_DECIDABLE
    assert judged(dataset={"outline": {"entries": 1}}).reason is Reason.NOT_DECIDABLE
    assert judged(silent(TRIAL), servers=()).reason is Reason.NOT_REPORTED


def test_each_engine_behind_an_address_has_a_cache_of_its_own() -> None:
    found = judged(servers=(server(engines=4.0),))
    assert found.reason is Reason.NOT_DECIDABLE
    assert "requests go to any of 4 replicas" in found.message


def test_a_pool_that_may_have_been_too_small_decides_nothing() -> None:
    found = judged(servers=(server(kv_blocks=500.0),))
    assert found.reason is Reason.NOT_DECIDABLE
    assert "the pool may be too small" in found.message


def test_a_block_that_no_server_tells_may_be_any_that_is_usual() -> None:
    counted = server(hits=sum(TRIAL.cached))
    known = judged(silent(TRIAL), servers=(counted,)).phases[1]
    quiet = replace(counted, after={k: v for k, v in counted.after.items() if "block" not in k})
    guessed = judged(silent(TRIAL), servers=(quiet,)).phases[1]
    assert (guessed.low or 0) < (known.low or 0) <= (known.high or 0) <= (guessed.high or 0)
    assert block_sizes("sglang")[0] == 1
    assert block_sizes("generic") == block_sizes("trtllm")


def test_cached_tokens_that_are_no_multiple_of_a_size_rule_it_out() -> None:
    found, known = judged(servers=()), judged()
    assert found.reason is Reason.AS_PLANNED, "400 tokens are no blocks of 32"
    assert found.phases[1] == known.phases[1]


def test_a_server_that_only_counts_prompts_tells_its_template_by_their_lengths() -> None:
    found = judged(dataset=described(replace(TRIAL.outline, frame=None)))
    assert found.reason is Reason.AS_PLANNED
