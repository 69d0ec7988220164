"""Gathers what the verdict on a trial's cache is made from, and has it made beside the loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tare.api.reasons import Reason
from tare.decide.cache import Evidence, judge_trial
from tare.manifests.order import build_phases
from tare.plan.cache.verdict import unverified

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tare.decide.acceptance import Accepted
    from tare.decide.attempt import Attempt
    from tare.decide.children import TrialKey
    from tare.measure.cache import CacheVerdict
    from tare.measure.hooks import Replicas
    from tare.measure.servers import ServerCounts
    from tare.measure.trial import TrialSummary

__all__ = ["CacheCheck"]

_LOG = logging.getLogger(__name__)


class CacheCheck:
    """The caches of one run's trials; a restart of the operator forgets the restarts of servers."""

    def __init__(self, accepted: Accepted) -> None:
        self._accepted = accepted
        self._began: dict[TrialKey, dict[str, int]] = {}
        """Restarts of each pod's containers before the first gate."""
        self._ended: dict[TrialKey, dict[str, int]] = {}

    def begin(self, key: TrialKey, replicas: Replicas) -> None:
        """Take in the servers before the first gate; later looks change nothing."""
        self._began.setdefault(key, _restarts(replicas))

    def end(self, key: TrialKey, replicas: Replicas) -> None:
        """Take in the servers after the last drain."""
        self._ended[key] = _restarts(replicas)

    def forget(self, keep: AbstractSet[TrialKey]) -> None:
        """Drop what belongs to attempts that are over."""
        for memory in (self._began, self._ended):
            for key in memory.keys() - keep:
                del memory[key]

    async def judge(
        self,
        attempt: Attempt,
        summary: TrialSummary,
        *,
        dataset: Mapping[str, Any],
        servers: Sequence[ServerCounts],
        skew: Mapping[str, float],
    ) -> CacheVerdict:
        """Hold the cached tokens of a measured trial against its plan.

        Thousands of rows are looked at, in a thread: other runs go on meanwhile.
        """
        spec = self._accepted.cells[attempt.key.cell].spec
        evidence = Evidence(
            results=summary.phases,
            dataset=dataset,
            servers=servers,
            replicas=max(len(attempt.replicas or ()), len(attempt.reset_servers or ())),
            skew=skew,
            restarted=self._restarted(attempt.key),
        )
        try:
            return await asyncio.to_thread(judge_trial, spec, build_phases(spec), evidence)
        except Exception:  # noqa: BLE001 - a bug in the plan must not lose a result
            _LOG.exception("no verdict on the cache of cell %d", attempt.key.cell)
            text = "the plan of the cache could not be made; the operator's log says why"
            return unverified(Reason.NOT_DECIDABLE, text)

    def _restarted(self, key: TrialKey) -> list[str]:
        """Pods that were there all the time, but whose containers were started again."""
        before, after = self._began.get(key, {}), self._ended.get(key, {})
        return [name for name, count in after.items() if before.get(name, count) != count]


def _restarts(replicas: Replicas) -> dict[str, int]:
    """How often the containers of each replica were started again; URLs do not tell."""
    return {one.name: one.restarts for one in replicas.ready if one.restarts is not None}
