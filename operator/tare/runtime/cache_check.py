"""Has the verdict on a trial's cache made beside the loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tare.api.reasons import Reason
from tare.decide.cache import Evidence, judge_trial
from tare.manifests.order import build_phases
from tare.plan.cache.verdict import unverified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.decide.acceptance import Accepted
    from tare.decide.attempt import Attempt
    from tare.measure.cache import CacheVerdict
    from tare.measure.trial import TrialSummary

__all__ = ["check_cache"]

_LOG = logging.getLogger(__name__)


async def check_cache(
    accepted: Accepted,
    attempt: Attempt,
    summary: TrialSummary,
    *,
    dataset: Mapping[str, Any],
    skew: Mapping[str, float],
) -> CacheVerdict:
    """Hold the cached tokens of a measured trial against its plan.

    Thousands of rows are looked at, in a thread: other runs go on meanwhile.
    """
    spec = accepted.cells[attempt.key.cell].spec
    evidence = Evidence(
        results=summary.phases,
        dataset=dataset,
        servers=attempt.servers,
        replicas=max(len(attempt.replicas or ()), len(attempt.reset_servers or ())),
        skew=skew,
    )
    try:
        return await asyncio.to_thread(judge_trial, spec, build_phases(spec), evidence)
    except Exception:  # noqa: BLE001 - a bug in the plan must not lose a result
        _LOG.exception("no verdict on the cache of cell %d", attempt.key.cell)
        text = "the plan of the cache could not be made; the operator's log says why"
        return unverified(Reason.NOT_DECIDABLE, text)
