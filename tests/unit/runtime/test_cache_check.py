"""What the operator gathers for the verdict on a trial's cache."""

from __future__ import annotations

from dataclasses import replace

from support.decided import REPLICAS, manifest, trial_summary
from support.measured import phase_result
from tare.api.reasons import Reason
from tare.decide.acceptance import Accepted, accept
from tare.decide.attempt import Attempt
from tare.decide.children import TrialKey
from tare.measure.hooks import Replicas
from tare.net.allowlist import AllowList
from tare.runtime.cache_check import CacheCheck

KEY = TrialKey(0, 0, 1)
ATTEMPT = Attempt(key=KEY, started=0.0, replicas=REPLICAS)


def check() -> CacheCheck:
    accepted = accept(manifest(), allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted)
    return CacheCheck(accepted)


def pods(*restarts: int | None) -> Replicas:
    pairs = zip(REPLICAS, restarts, strict=True)
    return Replicas(ready=tuple(replace(replica, restarts=count) for replica, count in pairs))


async def reason(one: CacheCheck) -> tuple[Reason, str]:
    found = await one.judge(ATTEMPT, trial_summary(), dataset={}, servers=(), skew={})
    return found.reason, found.message


async def test_a_pod_whose_container_was_started_again_is_named() -> None:
    one = check()
    one.begin(KEY, pods(0, 3))
    one.begin(KEY, pods(0, 4))
    one.end(KEY, pods(0, 4))
    found, message = await reason(one)
    assert found is Reason.SERVER_RESTARTED
    assert message.startswith("qwen-2 restarted during the trial")


async def test_pods_that_stayed_up_and_urls_are_not_accused() -> None:
    for before, after in (((0, 3), (0, 3)), ((None, None), (None, None))):
        one = check()
        one.begin(KEY, pods(*before))
        one.end(KEY, pods(*after))
        assert (await reason(one))[0] is Reason.NOT_DECIDABLE


async def test_what_this_process_did_not_see_is_no_restart() -> None:
    one = check()
    one.end(KEY, pods(0, 4))
    assert (await reason(one))[0] is Reason.NOT_DECIDABLE


async def test_attempts_that_are_over_are_forgotten() -> None:
    one = check()
    one.begin(KEY, pods(0, 3))
    one.forget(frozenset())
    one.end(KEY, pods(0, 4))
    assert (await reason(one))[0] is Reason.NOT_DECIDABLE


async def test_what_cannot_be_planned_loses_no_result() -> None:
    """Whatever is wrong, the trial is stored; the log says what it was."""
    damaged = phase_result(histograms={"cached_tokens": {"no": "histogram"}})
    summary = replace(trial_summary(), phases=(damaged,))
    found = await check().judge(ATTEMPT, summary, dataset={}, servers=(), skew={})
    assert found.reason is Reason.NOT_DECIDABLE
    assert "the operator's log says why" in found.message
