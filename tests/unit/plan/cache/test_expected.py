"""How many cached tokens a phase finds: the rules one by one, and that they hold in general."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest_builder import order_of, phase
from support.virtual_load import Replica, describe, play
from tare.plan.cache.expected import CacheState, Request, Servers
from tare.plan.cache.outline import Frame, MarkerOutline, Outline
from tare.plan.cache.plan import CacheSettings, plan_after, plan_before
from tare.plan.cache.prefixes import Prefixes

if TYPE_CHECKING:
    from tare.plan.order import WorkOrder

BLOCK = 32


def outline(question: int = 100, *, entries: int = 10, **fields: Any) -> Outline:
    """Prompts of one question each; the template adds nothing unless said."""
    frame = Frame(starts=(0, 0), total=0)
    runs = f"{entries}*0:{question}/4"
    return Outline(
        entries=entries, runs=runs, described=entries, **{"exact": True, "frame": frame, **fields}
    )


def prefixes(one: Outline, *, answers_repeat: bool = True) -> Prefixes:
    return Prefixes(one, answers_repeat=answers_repeat)


@pytest.mark.parametrize(
    ("tokens", "cached"), [(32, 0), (33, 32), (64, 32), (65, 64), (892, 864), (896, 864)]
)
def test_a_repeated_prompt_finds_its_whole_blocks_but_for_the_last_token(
    tokens: int, cached: int
) -> None:
    state = CacheState(Servers(block=BLOCK))
    one = prefixes(outline(tokens))
    state.phase(one, [Request(0)], together=1)
    again = state.phase(one, [Request(0)], together=1)
    assert (again.low, again.high, again.most) == (cached, cached, cached)


def test_a_shared_prefix_is_rounded_down_to_blocks() -> None:
    state = CacheState(Servers(block=BLOCK))
    one = prefixes(outline(50, system=870, frame=Frame(starts=(5, 10), total=24)))
    state.phase(one, [Request(0)], together=1)
    other = state.phase(one, [Request(1)], together=1)
    assert (other.low, other.high) == (864, 864), "880 tokens of template and system prompt"


def test_of_requests_that_are_on_their_way_together_all_or_all_but_one_miss() -> None:
    one = prefixes(outline(2600))
    found = CacheState(Servers(block=BLOCK)).phase(one, [Request(0)] * 8, together=8)
    assert (found.low, found.high) == (0, 7 * 2592)
    closed = CacheState(Servers(block=BLOCK)).phase(one, [Request(0)] * 8, together=2)
    assert (closed.low, closed.high) == (6 * 2592, 7 * 2592)
    open_ended = CacheState(Servers(block=BLOCK)).phase(one, [Request(0)] * 8, together=None)
    assert (open_ended.low, open_ended.high) == (0, 7 * 2592)


def test_each_replica_must_see_a_prefix_for_itself() -> None:
    one = prefixes(outline(10, system=3200))
    requests = [Request(entry % 10) for entry in range(100)]
    found = CacheState(Servers(block=BLOCK, replicas=3)).phase(one, requests, together=4)
    assert found.low == (100 - 3 * 4) * 3200
    assert found.high == 99 * 3200


def test_what_an_earlier_phase_sent_is_on_one_replica_at_least() -> None:
    one = prefixes(outline(320))
    for replicas, low in ((1, 288), (2, 0)):
        state = CacheState(Servers(block=BLOCK, replicas=replicas))
        state.phase(one, [Request(0)], together=1)
        found = state.phase(one, [Request(0)], together=1)
        assert (found.low, found.high) == (low, 288)


def test_a_reset_leaves_nothing_and_a_phase_in_doubt_leaves_only_what_may_be() -> None:
    one = prefixes(outline(320))
    state = CacheState(Servers(block=BLOCK))
    state.phase(one, [Request(0)], together=1, certain=False)
    found = state.phase(one, [Request(0)], together=1)
    assert (found.low, found.high) == (0, 288)
    state.reset()
    found = state.phase(one, [Request(0)], together=1)
    assert (found.low, found.high) == (0, 0)


def test_a_pool_that_is_too_small_may_have_forgotten_everything() -> None:
    one = prefixes(outline(320, entries=100))
    requests = [Request(entry) for entry in range(100)]
    for blocks, evicts in ((2000, False), (1000, True)):
        state = CacheState(Servers(block=BLOCK, blocks=blocks))
        first = state.phase(one, requests, together=1)
        found = state.phase(one, requests, together=1)
        assert not first.evicts or evicts
        assert found.evicts is evicts
        assert found.low == (0 if evicts else 100 * 288)
        assert found.high == 100 * 288


def test_a_failed_request_may_have_left_nothing() -> None:
    one = prefixes(outline(320))
    state = CacheState(Servers(block=BLOCK))
    state.phase(one, [Request(0), Request(1)], together=1, failed=1)
    found = state.phase(one, [Request(0), Request(1)], together=1)
    assert found.low == 2 * 288 - 320
    assert found.high == 2 * 288


def test_a_later_turn_finds_the_turn_before_and_perhaps_its_answer() -> None:
    one = replace(outline(entries=1), runs="1*0:100/40,60/40")
    first, second = Request(0, 0), Request(0, 1)
    found = CacheState(Servers(block=BLOCK)).phase(prefixes(one), [first, second], together=1)
    assert (found.low, found.high) == (96, 128), "100 tokens of the prompt, 140 with the answer"


@pytest.mark.parametrize(("repeat", "low"), [(True, 96 + 192), (False, 96 + 96)])
def test_a_turn_that_is_replayed_is_known_only_if_answers_repeat(repeat: bool, low: int) -> None:
    one = replace(outline(entries=1), runs="1*0:100/2,98/2")
    state = CacheState(Servers(block=BLOCK))
    both = [Request(0, 0), Request(0, 1)]
    state.phase(prefixes(one, answers_repeat=repeat), both, together=1)
    found = state.phase(prefixes(one, answers_repeat=repeat), both, together=1)
    assert (found.low, found.high) == (low, 96 + 192)


def test_digests_of_different_lengths_leave_a_block_in_doubt() -> None:
    marker = MarkerOutline(kind="rid", in_system=False, at_end=False, tokens=18, less=1, more=1)
    for tokens, low, high in ((100, 96, 96), (97, 64, 96)):
        one = prefixes(outline(tokens, marker=marker))
        mark = ("rid", 0, 0)
        assert one.prompt(0, 0, mark) == (tokens - 2, tokens + 2), "of two that were not tried"
        state = CacheState(Servers(block=BLOCK))
        state.phase(one, [Request(0, 0, mark)], together=1)
        found = state.phase(one, [Request(0, 0, mark)], together=1)
        assert (found.low, found.high) == (low, high)


def test_what_the_probe_left_of_the_template_is_no_surprise() -> None:
    """On a server whose blocks are single tokens, a template of seven tokens is seven blocks."""
    one = prefixes(outline(100, frame=Frame(starts=(7,), total=12)))
    found = CacheState(Servers(block=1)).phase(one, [Request(0), Request(1)], together=1)
    assert (found.low, found.high) == (7, 14)


def test_everything_warm_by_plan_hides_what_others_left() -> None:
    one = prefixes(outline(320))
    state = CacheState(Servers(block=BLOCK))
    cold = state.phase(one, [Request(0)], together=1)
    warm = state.phase(one, [Request(0)], together=1)
    assert (cold.finds_nothing, warm.finds_nothing) == (False, True)


def test_an_interval_wider_than_a_twentieth_decides_nothing() -> None:
    one = prefixes(outline(10, system=3200))
    requests = [Request(0, 0)] * 100
    decided = CacheState(Servers(block=BLOCK)).phase(one, requests, together=5)
    doubted = CacheState(Servers(block=BLOCK)).phase(one, requests, together=7)
    assert (decided.is_decidable, doubted.is_decidable) == (True, False)
    assert decided.width == pytest.approx(4 * 3200 / (100 * 3210))


PREFIXES: tuple[dict[str, Any], ...] = (
    {},
    {"sharedSystemLength": 90},
    {"systemPrompt": "You are a terse assistant. " * 9},
    {"userContextLength": 70},
    {"poolSize": 3, "poolLength": 80},
)
TARGETS = (
    "none",
    "system_prefix",
    "system_suffix",
    "first_turn_prefix",
    "first_turn_suffix",
    "warmup_isolation_first_turn",
)


def loaded(load: str, dataset: dict[str, Any], *, chat: bool) -> WorkOrder:
    """A warm-up and a profiling phase that goes round the entries, and on."""
    unit = "sessions" if load == "sessions" else "requests"
    closed = {"type": "sessions", "requests": None} if load == "sessions" else {}
    pace: dict[str, Any] = {"rate": 300, "concurrency": None} if load == "poisson" else {}
    return order_of(
        dataset=dataset,
        endpoint={"type": "chat" if chat else "completions"},
        phases=[
            phase(**{"name": "warmup", "kind": "warmup", **closed, unit: 6}),
            phase(**{"type": load, **closed, unit: 14, **pace}),
        ],
    )


@settings(max_examples=60, deadline=None)
@given(
    prefix=st.sampled_from(PREFIXES),
    target=st.sampled_from(TARGETS),
    scope=st.sampled_from(("Trajectory", "TrajectoryAndPhase")),
    carrier=st.sampled_from(("text", "salt")),
    isl=st.sampled_from((40, {"min": 30, "max": 140}, {"values": [33, 64, 97]})),
    turns=st.sampled_from((1, 2, 2.5)),
    load=st.sampled_from(("concurrency", "poisson", "sessions")),
    completions=st.booleans(),
    replicas=st.integers(1, 3),
    shares_in_flight=st.booleans(),
    block=st.sampled_from((1, 16, 32)),
    seed=st.integers(0, 1000),
)
def test_whatever_the_servers_do_what_is_found_lies_between_the_bounds(
    *,
    prefix: dict[str, Any],
    target: str,
    scope: str,
    carrier: str,
    isl: Any,
    turns: float,
    load: str,
    completions: bool,
    replicas: int,
    shares_in_flight: bool,
    block: int,
    seed: int,
) -> None:
    """Requests go to any replica, in any order; blocks are found when scheduled or computed."""
    chat = not completions or load == "sessions" or bool(prefix)
    dataset = {
        "entries": 9,
        "seed": seed,
        "prompts": {
            "isl": isl,
            "osl": 14,
            "cacheBust": {"target": target, "scope": scope, "carrier": carrier},
        },
        "prefixPrompts": prefix,
        **({"turns": {"mean": turns}} if load == "sessions" else {}),
    }
    order = loaded(load, dataset, chat=chat)
    servers = [Replica(block=block, shares_in_flight=shares_in_flight) for _ in range(replicas)]
    trial = play(order, servers, seed=seed)
    plan = CacheSettings(
        servers=Servers(block=block, replicas=replicas), at_start=True, answers_repeat=True
    )
    after = plan_after(trial.outline, order.phases, plan, results=trial.results, skew={})
    for one, cached, prompt in zip(after, trial.cached, trial.prompts, strict=True):
        assert one.expected is not None
        assert one.expected.low <= cached <= one.expected.high
        assert not one.excess
        assert one.expected.prompt_tokens == pytest.approx(prompt, rel=0.12)
    before = plan_before(describe(order.dataset, chat=chat)[1], order.phases, plan)
    for one, cached in zip(before, trial.cached, strict=True):
        assert one.expected is not None
        assert one.expected.low <= cached <= one.expected.high
