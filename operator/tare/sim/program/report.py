"""The report of a run as text: one line about the run, then observations, stages and pools.

The columns are those that published reports of such programs have, so that the two can be laid
side by side. Programs of this grammar can neither preempt, spill nor get stuck, and their stages do
not iterate: these columns are zero by construction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tare.sim.program.outcome import Observation, Outcome, PoolOutcome, StageOutcome

__all__ = ["as_document", "columns", "report"]


_OBSERVATION: Final = ("observe", "count", "mean", "95% CI", "cv2", "p99")
_STAGE: Final = ("stage", "number", "util", "done", "thru", "wait", "service", "iters")
_POOL: Final = (
    "pool", "used", "cached", "queue", "holders", "wait", "admits",
    "evict(n)", "evict(u)", "preempt", "spill", "rej", "stuck",
)  # fmt: skip


def report(outcome: Outcome) -> str:
    """Lay out everything that a run says."""
    tables = [_head(outcome)]
    if outcome.observations:
        tables.append(columns(_OBSERVATION, map(_observation, outcome.observations)))
    if outcome.stages:
        tables.append(columns(_STAGE, map(_stage, outcome.stages)))
    if outcome.pools:
        tables.append(columns(_POOL, map(_pool, outcome.pools)))
    notes = [
        f"note: {pool.rejected:,} sessions needed more than all of {pool.name}, left at once and "
        "are in no mean"
        for pool in outcome.pools
        if pool.rejected
    ]
    notes += [
        f"note: {found.name} is 0 in each of its {found.summary.count:,} samples"
        for found in outcome.observations
        if found.summary.p99 == 0 and not any(found.samples)
    ]
    return "\n\n".join([*tables, *(["\n".join(notes)] if notes else [])]) + "\n"


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table with two spaces between columns; the first is left-aligned."""
    cells = [list(heads), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            text.rjust(width) if index else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def as_document(outcome: Outcome) -> dict[str, Any]:
    """Return a run as a JSON document; its names are those of published reports."""
    settings = outcome.settings
    return {
        "horizon": settings.horizon,
        "warmup": settings.warmup,
        "seed": settings.seed,
        "constants": dict(settings.constants),
        "events": outcome.events,
        "arrivals": outcome.arrivals,
        "ended": outcome.ended,
        "turns": outcome.turns,
        "rejected": outcome.rejected,
        "mean_live": outcome.mean_live,
        "observes": {
            found.name: {
                "count": found.summary.count,
                "mean": found.summary.mean,
                "ci": found.summary.half_width,
                "cv2": found.summary.squared_variation,
                "p99": found.summary.p99,
            }
            for found in outcome.observations
        },
        "stages": [_fields(stage) for stage in outcome.stages],
        "pools": [_fields(pool) for pool in outcome.pools],
    }


def _fields(found: StageOutcome | PoolOutcome) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__slots__}


def _head(outcome: Outcome) -> str:
    settings = outcome.settings
    return (
        f"run: horizon {settings.horizon:.12g} end {settings.horizon:.12g} "
        f"warmup {settings.warmup:.12g} seed {settings.seed} events {outcome.events} "
        f"arrivals {outcome.arrivals} ended {outcome.ended} turns {outcome.turns} "
        f"mean live {outcome.mean_live:.3f}"
    )


def _observation(found: Observation) -> list[str]:
    summary = found.summary
    return [
        found.name,
        str(summary.count),
        _fixed(summary.mean, 4),
        f"±{summary.half_width:.4f}" if summary.half_width is not None else "-",
        _fixed(summary.squared_variation, 3),
        _fixed(summary.p99, 4),
    ]


def _stage(stage: StageOutcome) -> list[str]:
    return [
        stage.name,
        f"{stage.mean_number:.3f}",
        f"{stage.utilization:.3f}",
        str(stage.completed),
        f"{stage.throughput:.4f}",
        f"{stage.mean_wait:.4f}",
        f"{stage.mean_service:.4f}",
        "0",
    ]


def _pool(pool: PoolOutcome) -> list[str]:
    return [
        pool.name,
        f"{pool.mean_used:.1f}",
        f"{pool.mean_cached:.1f}",
        f"{pool.mean_queue:.3f}",
        f"{pool.mean_holders:.3f}",
        f"{pool.mean_wait:.4f}",
        str(pool.admissions),
        str(pool.evicted_entries),
        f"{pool.evicted_units:.0f}",
        "0",
        "0",
        str(pool.rejected),
        "0",
    ]


def _fixed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
