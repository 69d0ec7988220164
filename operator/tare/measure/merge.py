"""Add up what the workers of a trial measured in one phase.

Merging is associative and commutative: whichever worker reports first, the result is the same.
Counts add, histograms merge (percentiles never do), times are those of the slowest worker.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from tare.measure.histogram import Histogram
from tare.measure.messages import PhaseResult, Progress, WorkerResult
from tare.measure.rows import merge_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tare.measure.messages import Identity

Number = TypeVar("Number", int, float)

__all__ = [
    "add_counts",
    "merge_histograms",
    "merge_phase",
    "merge_phases",
    "merge_processes",
    "merge_progress",
]


def merge_phases(results: Sequence[WorkerResult]) -> tuple[PhaseResult, ...]:
    """Merge the results of all workers of a trial, phase by phase, in the order of the phases.

    A worker that was stopped early lacks only the last phases, so the order is the same for any
    order of the workers.

    Raises:
        ValueError: a phase has two kinds, so that the results are not of the same order.
    """
    by_name: dict[str, list[PhaseResult]] = {}
    for result in results:
        for phase in result.phases:
            by_name.setdefault(phase.name, []).append(phase)
    return tuple(merge_phase(parts) for parts in by_name.values())


def merge_phase(parts: Sequence[PhaseResult]) -> PhaseResult:
    """Merge at least one result of the same phase.

    Raises:
        ValueError: the results are of different phases.
    """
    first = parts[0]
    for part in parts:
        if (part.name, part.kind) != (first.name, first.kind):
            raise ValueError(
                f"{first.name} ({first.kind}) and {part.name} ({part.kind}) are different phases"
            )
    return PhaseResult(
        name=first.name,
        kind=first.kind,
        planned_seconds=_largest(part.planned_seconds for part in parts),
        seconds=max(part.seconds for part in parts),
        drain_seconds=max(part.drain_seconds for part in parts),
        seamless=first.seamless,
        counts=add_counts(part.counts for part in parts),
        errors=add_counts(part.errors for part in parts),
        error_samples=_first_texts(part.error_samples for part in parts),
        token_sources=add_counts(part.token_sources for part in parts),
        endpoints=add_counts(part.endpoints for part in parts),
        histograms={
            name: histogram.to_json()
            for name, histogram in merge_histograms(part.histograms for part in parts).items()
        },
        connections_opened=sum(part.connections_opened for part in parts),
        first_cached_tokens=_largest(part.first_cached_tokens for part in parts),
        rows=merge_rows(part.rows for part in parts),
        start_skew=max(part.start_skew for part in parts),
    )


def merge_processes(worker: Identity, results: Sequence[WorkerResult]) -> WorkerResult:
    """Merge what the processes of one worker measured into the result of that worker.

    The event loop's lag is that of the process that was worst at p99: in a sum over all of them a
    single process that was held up would hardly show.
    """
    pauses = merge_histograms({"": result.gc_pauses} for result in results)
    return WorkerResult(
        worker=worker,
        phases=merge_phases(results),
        complete=all(result.complete for result in results),
        event_loop_lag=max((result.event_loop_lag for result in results), key=_lateness),
        cpu_seconds=sum(result.cpu_seconds for result in results),
        gc_pauses=pauses[""].to_json(),
    )


def merge_progress(worker: Identity, parts: Sequence[Progress]) -> Progress:
    """Add up how far the processes of one worker are in the same phase."""
    histograms = merge_histograms(
        {"ttft": part.time_to_first_token, "latency": part.request_latency} for part in parts
    )
    return Progress(
        worker=worker,
        phase=parts[0].phase,
        elapsed=max(part.elapsed for part in parts),
        issued=sum(part.issued for part in parts),
        ok=sum(part.ok for part in parts),
        failed=sum(part.failed for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        time_to_first_token=histograms["ttft"].to_json(),
        request_latency=histograms["latency"].to_json(),
        event_loop_lag=max(part.event_loop_lag for part in parts),
    )


def add_counts(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add counts key by key; keys come out sorted, zeros are kept."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items()))


def merge_histograms(parts: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, Histogram]:
    """Merge histograms, given as JSON, name by name.

    Raises:
        ValueError: a document is not a histogram.
    """
    merged: dict[str, Histogram] = {}
    for part in parts:
        for name, document in part.items():
            merged.setdefault(name, Histogram()).merge(Histogram.from_json(document))
    return dict(sorted(merged.items()))


def _lateness(lag: Mapping[str, Any]) -> tuple[int, int]:
    histogram = Histogram.from_json(lag)
    return histogram.percentile(99) or 0, histogram.maximum or 0


def _largest(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


def _first_texts(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Keep one text for each key: the first in alphabetical order, whoever reported it."""
    texts: dict[str, str] = {}
    for part in parts:
        for key, text in part.items():
            texts[key] = min(texts.get(key, text), text)
    return dict(sorted(texts.items()))
