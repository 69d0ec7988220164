"""What workers might have measured, for tests of what is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import Reason
from tare.measure.cache import CacheVerdict, CacheWord
from tare.measure.histogram import Histogram
from tare.measure.messages import Identity, PhaseResult, WorkerResult

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MS", "cache_verdict", "histogram", "phase_result", "worker_result"]

MS = 1_000_000
"""Nanoseconds in a millisecond."""


def histogram(values: Iterable[int]) -> dict[str, Any]:
    """The JSON of a histogram of `values`."""
    result = Histogram()
    for value in values:
        result.record(value)
    return result.to_json()


def phase_result(**fields: Any) -> PhaseResult:
    """A profiling phase of ten seconds in which nothing happened; `fields` override."""
    document: dict[str, Any] = {
        "name": "profiling",
        "kind": "profiling",
        "planned_seconds": 10.0,
        "seconds": 10.0,
        "drain_seconds": 0.0,
        "counts": {},
        **fields,
    }
    return PhaseResult(**document)


def cache_verdict(
    reason: Reason = Reason.AS_PLANNED, message: str = "as it should be"
) -> CacheVerdict:
    """The verdict on a trial's cache that has this reason."""
    word = {
        Reason.AS_PLANNED: CacheWord.AS_PLANNED,
        Reason.CONTAMINATED: CacheWord.CONTAMINATED,
        Reason.WARM_CACHE: CacheWord.CONTAMINATED,
    }.get(reason, CacheWord.UNVERIFIED)
    return CacheVerdict(verdict=word, reason=reason, message=message)


def worker_result(*phases: PhaseResult, index: int = 0, **fields: Any) -> WorkerResult:
    """The result of one worker."""
    worker = Identity(
        run_uid="u",
        cell=0,
        trial=0,
        attempt=1,
        index=index,
        pod_uid=f"p{index}",
        pod_name=f"w-{index}",
    )
    return WorkerResult(worker=worker, phases=phases, **{"complete": True, **fields})
