"""A difference between two runs as text: on a terminal, in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.measure.comparison import Change
from tare.measure.metrics import METRICS, Better, Unit
from tare.results.comparison import measure_text
from tare.results.units import latency, number, share, with_interval

if TYPE_CHECKING:
    from tare.measure.comparison import Difference
    from tare.results.comparison import RunComparison

__all__ = ["absolute_text", "change_text", "percent_text", "question_text", "relative_text"]


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


def change_text(change: Change, tolerance: float) -> str:
    """Name what a difference means, in a word or two."""
    words = {
        Change.BETTER: "better",
        Change.WITHIN_TOLERANCE: f"within {percent_text(tolerance)}",
        Change.NOT_WORSE: "not worse",
        Change.WORSE: "worse",
        Change.NOT_CONCLUSIVE: "not conclusive",
    }
    return words[change]


def question_text(found: RunComparison) -> str:
    """Say which metric decides, and how."""
    better = "higher" if METRICS[found.metric].better is Better.HIGHER else "lower"
    what = measure_text(found.metric, found.statistic)
    return f"{what}: {better} is better, {percent_text(found.tolerance)} is tolerated"


def percent_text(fraction: float) -> str:
    """Write a part of 1 in per cent."""
    return f"{number(fraction * 100)} %"


def _sign(value: float) -> str:
    return "-" if value < 0 else "+" if value > 0 else ""
