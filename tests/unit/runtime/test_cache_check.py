"""How the verdict on a trial's cache is asked for: what an attempt knows, and what may go wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from support.decided import REPLICAS, manifest, trial_summary
from support.measured import phase_result
from tare.api.reasons import Reason
from tare.decide.acceptance import Accepted, accept
from tare.decide.attempt import Attempt
from tare.decide.children import TrialKey
from tare.measure.servers import ServerCounts
from tare.net.allowlist import AllowList
from tare.runtime.cache_check import check_cache

if TYPE_CHECKING:
    from tare.measure.trial import TrialSummary


def attempt(*restarts: tuple[float, float]) -> Attempt:
    """An attempt whose pods had so many restarts before and after it."""
    servers = tuple(
        ServerCounts(replica=one.name, before={"restarts": first}, after={"restarts": last})
        for one, (first, last) in zip(REPLICAS, restarts, strict=True)
    )
    return Attempt(key=TrialKey(0, 0, 1), started=0.0, replicas=REPLICAS, servers=servers)


async def reason(one: Attempt, summary: TrialSummary) -> tuple[Reason, str]:
    accepted = accept(manifest(), allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted)
    found = await check_cache(accepted, one, summary, dataset={}, skew={})
    return found.reason, found.message


async def test_a_pod_whose_container_was_started_again_is_named() -> None:
    found, message = await reason(attempt((0, 0), (3, 4)), trial_summary())
    assert found is Reason.SERVER_RESTARTED
    assert message.startswith("qwen-2 restarted during the trial")


async def test_pods_that_restarted_before_the_trial_are_not_accused() -> None:
    found, _ = await reason(attempt((0, 0), (3, 3)), trial_summary())
    assert found is Reason.NOT_DECIDABLE


async def test_what_cannot_be_planned_loses_no_result() -> None:
    """Whatever is wrong, the trial is stored; the log says what it was."""
    damaged = phase_result(histograms={"cached_tokens": {"no": "histogram"}})
    summary = replace(trial_summary(), phases=(damaged,))
    found, message = await reason(attempt((0, 0), (0, 0)), summary)
    assert found is Reason.NOT_DECIDABLE
    assert "the operator's log says why" in message
