"""A difference between two runs as text: on a terminal, in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.measure.metrics import METRICS, Better, Unit
from tare.results.goals import measure_text
from tare.results.units import latency, share, with_interval

if TYPE_CHECKING:
    from tare.measure.comparison import Difference
    from tare.results.comparison import RunComparison

__all__ = ["absolute_text", "question_text", "relative_text"]


def absolute_text(found: Difference) -> str:
    """Write the difference in the unit of the metric; of shares in percentage points."""
    if found.difference is None:
        return "-"
    size, width = abs(found.difference), found.half_width
    match METRICS[found.metric].unit:
        case Unit.SECONDS:
            text = latency(size, width)
        case Unit.RATIO:
            text = f"{with_interval(size, width, 100)} points"
        case _:
            text = with_interval(size, width)
    return f"{_sign(found.difference)}{text}"


def relative_text(found: Difference) -> str:
    """Write the same in per cent of the baseline; empty where that is 0."""
    if found.relative is None:
        return ""
    return f"{_sign(found.relative)}{share(abs(found.relative), found.relative_half_width)}"


def question_text(found: RunComparison) -> str:
    """Say which metric decides, and how."""
    better = "higher" if METRICS[found.metric].better is Better.HIGHER else "lower"
    what = measure_text(found.metric, found.statistic)
    return f"{what}: {better} is better, {share(found.tolerance)} is tolerated"


def _sign(value: float) -> str:
    return "-" if value < 0 else "+" if value > 0 else ""
