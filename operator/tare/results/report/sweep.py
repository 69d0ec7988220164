"""Charts over all cells: along the number that the sweep varies, else cell by cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.measure.metrics import METRICS, SCALAR_STATISTIC, Unit
from tare.results.goals import goal_text, goal_value, measure_text
from tare.results.report.blocks import Figure
from tare.results.report.charts import Axis, Limit, Point, Series, line_chart, row_chart
from tare.results.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from tare.decide.outcome import CellOutcome
    from tare.measure.goals import Goal

__all__ = ["axis_of", "sweep_figures"]

_SHOWN: Final = (
    ("time_to_first_token", "p50"),
    ("time_to_first_token", "p99"),
    ("time_per_output_token", "p50"),
    ("request_latency", "p99"),
    ("output_token_throughput", SCALAR_STATISTIC),
    ("goodput", SCALAR_STATISTIC),
)
_MOST_SERIES: Final = 8
_MOST_ROWS: Final = 40
_AT_LEAST: Final = 2
_LOADS: Final = ("rate", "concurrency")


def sweep_figures(cells: Sequence[CellOutcome]) -> list[Figure]:
    """Draw the headline metrics of all measured cells; none for a run of one cell."""
    measured = [cell for cell in cells if cell.summary is not None]
    if len(measured) < _AT_LEAST:
        return []
    goals = [verdict.goal for verdict in measured[0].goals]
    path = axis_of(measured)
    figures = []
    for metric, statistic in _SHOWN:
        has = [cell for cell in measured if _value(cell, metric, statistic)]
        if not has:
            continue
        title = measure_text(metric, statistic)
        limits = _limits(goals, metric, statistic)
        chart = (
            _along(title, path, has, metric, statistic, limits)
            if path is not None
            else _rows(title, has, metric, statistic, limits)
        )
        figures.append(Figure(title=title, chart=chart, note=_note(has, metric, statistic)))
    return figures


def axis_of(cells: Sequence[CellOutcome]) -> str | None:
    """Return the path whose number is drawn along the charts; None when there is no such number.

    The load goes before other numbers, and what has more values before what has fewer, as long as
    the other overrides leave few enough lines.
    """
    paths = {path: None for cell in cells for path in cell.overrides}
    fit = []
    for path in paths:
        values = [cell.overrides.get(path) for cell in cells]
        if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            continue
        distinct = len(set(values))
        lines = len({_line_of(cell, path) for cell in cells})
        if distinct >= _AT_LEAST and lines <= _MOST_SERIES:
            fit.append((path.rpartition(".")[2] in _LOADS, distinct, path))
    return max(fit, key=lambda found: found[:2])[2] if fit else None


def _line_of(cell: CellOutcome, path: str) -> str:
    """Name the line that a cell lies on: by everything that is varied but the axis."""
    return ", ".join(
        f"{other.rpartition('.')[2]}={value}"
        for other, value in cell.overrides.items()
        if other != path
    )


def _along(
    title: str,
    path: str,
    cells: Sequence[CellOutcome],
    metric: str,
    statistic: str,
    limits: Sequence[Limit],
) -> Markup:
    lines: dict[str, list[Point]] = {}
    for cell in cells:
        point = _point(cell, metric, statistic, float(cell.overrides[path]))
        lines.setdefault(_line_of(cell, path), []).append(point)
    return line_chart(
        title,
        Axis(label=path, text=number),
        _axis(metric),
        [
            Series(name=name, points=sorted(points, key=lambda point: point.x))
            for name, points in lines.items()
        ],
        limits,
    )


def _rows(
    title: str,
    cells: Sequence[CellOutcome],
    metric: str,
    statistic: str,
    limits: Sequence[Limit],
) -> Markup:
    rows = [(cell.name, _point(cell, metric, statistic, 0.0)) for cell in list(cells)[:_MOST_ROWS]]
    return row_chart(title, _axis(metric), rows, limits)


def _point(cell: CellOutcome, metric: str, statistic: str, x: float) -> Point:
    found = _value(cell, metric, statistic)
    assert found is not None
    mean, half_width = found
    return Point(
        x=x,
        y=mean,
        half_width=half_width,
        note=f"{cell.name}: {goal_value(metric, mean, half_width)}",
    )


def _value(cell: CellOutcome, metric: str, statistic: str) -> tuple[float, float | None] | None:
    found = cell.summary.aggregate(metric, statistic) if cell.summary else None
    return None if found is None else (found.mean, found.half_width)


def _axis(metric: str) -> Axis:
    unit = METRICS[metric].unit
    label = "" if unit in (Unit.SECONDS, Unit.RATIO) else unit.value
    return Axis(
        label=label, text=lambda value: goal_value(metric, value), spread=unit is Unit.SECONDS
    )


def _limits(goals: Sequence[Goal], metric: str, statistic: str) -> list[Limit]:
    return [
        Limit(value=bound, label=goal_text(goal))
        for goal in goals
        if (goal.metric, goal.statistic) == (metric, statistic)
        for bound in (goal.min, goal.max)
        if bound is not None
    ]


def _note(cells: Sequence[CellOutcome], metric: str, statistic: str) -> str:
    if any(found[1] is not None for cell in cells if (found := _value(cell, metric, statistic))):
        return "Bars: 95 % confidence interval over the trials."
    return ""
