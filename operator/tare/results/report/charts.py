"""Charts as SVG: lines with error bars, and values of named rows; no script, no library.

Each is a text that a browser scales to the width of its column. Colours are classes of the page's
style sheet, so that one chart does for light and dark; every mark says its number when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from markupsafe import Markup, escape

__all__ = ["Axis", "Limit", "Point", "Series", "line_chart", "row_chart"]

_WIDTH: Final = 560
_HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 16, 14, 44
_TICKS: Final = 5
_COLOURS: Final = 8
_SPREAD: Final = 30
_FEW_DECADES: Final = 2
_ROW: Final = 26
_NAME_WIDTH: Final = 190
_NAME_LENGTH: Final = 32
_DOT: Final = 3.5
_END: Final = 4
"""Half of the stroke across each end of an error bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What is measured along a side, and how its numbers are written."""

    label: str
    text: Callable[[float], str]
    from_zero: bool = True
    spread: bool = False
    """On a logarithmic scale where the values are far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value, with how sure it is."""

    x: float
    y: float
    half_width: float | None = None
    """Of the confidence interval; None draws none."""
    note: str = ""
    """Shown when pointed at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together."""

    name: str
    points: Sequence[Point]
    dots: bool = True
    dashed: bool = False
    colour: int | None = None
    """Its place among the colours, where two series share one; else its place in the chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A goal across the chart."""

    value: float
    label: str


class _Scale:
    """From values to pixels along one side, with round numbers as ticks."""

    def __init__(self, values: Sequence[float], axis: Axis, first: float, last: float) -> None:
        self._first, self._span = first, last - first
        positive = [value for value in values if value > 0]
        # What an overload does to a latency leaves nothing to see of the rest on an even scale.
        self._log = axis.spread and max(values) > _SPREAD * min(positive, default=math.inf)
        self.ticks = _decades(positive) if self._log else _even(values, axis)
        """Round numbers from the lowest to the highest."""
        self._low, self._high = self._at(self.ticks[0]), self._at(self.ticks[-1])

    def __call__(self, value: float) -> float:
        share = (self._at(value) - self._low) / (self._high - self._low)
        return round(self._first + max(share, 0.0) * self._span, 1)

    def _at(self, value: float) -> float:
        return math.log10(max(value, self.ticks[0])) if self._log else value


def _even(values: Sequence[float], axis: Axis) -> list[float]:
    low, high = 0.0 if axis.from_zero else min(values), max(values)
    if high <= low:
        high = low + (abs(low) or 1.0)
    step = _round_step((high - low) / _TICKS)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _decades(values: Sequence[float]) -> list[float]:
    """Powers of ten around the values, and 2 and 5 times them where there are few."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    factors = (1, 2, 5) if high - low <= _FEW_DECADES else (1,)
    ticks = [f * 10.0**power for power in range(low, high + 1) for f in factors]
    below = [tick for tick in ticks if tick <= min(values)]
    above = [tick for tick in ticks if tick >= max(values)]
    return [tick for tick in ticks if below[-1] <= tick <= above[0]]


def line_chart(
    title: str, x: Axis, y: Axis, series: Sequence[Series], limits: Sequence[Limit] = ()
) -> Markup:
    """Draw series over a common x; an empty text when there is no point at all."""
    points = [point for each in series for point in each.points]
    if not points:
        return Markup()
    across = _Scale([p.x for p in points], x, _LEFT, _WIDTH - _RIGHT)
    reach = [p.y + (p.half_width or 0.0) for p in points]
    shown = [limit for limit in limits if limit.value <= 2 * max(reach)]
    heights = [*reach, *(limit.value for limit in shown)]
    up = _Scale(heights, y, _HEIGHT - _BOTTOM, _TOP)
    body = [
        *_y_axis(up, y, _WIDTH - _RIGHT),
        *_x_axis(across, x, _HEIGHT - _BOTTOM),
        *(_limit(limit, up) for limit in shown),
    ]
    for place, each in enumerate(series):
        colour = (place if each.colour is None else each.colour) % _COLOURS
        body += _series(each, across, up, colour)
    return _svg(title, _HEIGHT, body) + _legend(series)


def row_chart(
    title: str, axis: Axis, rows: Sequence[tuple[str, Point]], limits: Sequence[Limit] = ()
) -> Markup:
    """Draw one value for each name, below each other; `Point.y` counts, `Point.x` does not."""
    if not rows:
        return Markup()
    height = _TOP + _ROW * len(rows) + _BOTTOM
    reach = [point.y + (point.half_width or 0.0) for _, point in rows]
    shown = [limit for limit in limits if limit.value <= 2 * max(reach)]
    values = [*reach, *(limit.value for limit in shown)]
    across = _Scale(values, axis, _NAME_WIDTH, _WIDTH - _RIGHT)
    body = list(_x_axis(across, axis, height - _BOTTOM, first=_NAME_WIDTH))
    for limit in shown:
        at = across(limit.value)
        body.append(
            f'<line class="limit" x1="{at}" x2="{at}" y1="{_TOP}" y2="{height - _BOTTOM}">'
            f"<title>{escape(limit.label)}</title></line>"
        )
    for place, (name, point) in enumerate(rows):
        middle = _TOP + _ROW * (place + 0.5)
        body.append(
            f'<text class="name" x="{_NAME_WIDTH - 8}" y="{middle + 4}">'
            f"{escape(_short(name))}<title>{escape(name)}</title></text>"
        )
        body += _bar_across(point, across, middle)
    return _svg(title, height, body)


def _series(series: Series, across: _Scale, up: _Scale, colour: int) -> list[str]:
    places = [(across(p.x), up(p.y)) for p in series.points]
    marks = [
        f'<polyline class="line c{colour}{" dashed" if series.dashed else ""}" points="'
        + " ".join(f"{x},{y}" for x, y in places)
        + '"/>'
    ]
    for point, (x, y) in zip(series.points, places, strict=True):
        if point.half_width:
            low, high = up(max(point.y - point.half_width, 0.0)), up(point.y + point.half_width)
            ends = f"M{x - _END},{low}h{2 * _END}M{x - _END},{high}h{2 * _END}"
            marks.append(f'<path class="bar c{colour}" d="M{x},{low}V{high}{ends}"/>')
        if series.dots:
            marks.append(_dot(point, x, y, colour))
    return marks


def _bar_across(point: Point, across: _Scale, middle: float) -> list[str]:
    marks = []
    if point.half_width:
        low = across(max(point.y - point.half_width, 0.0))
        high = across(point.y + point.half_width)
        ends = f"M{low},{middle - _END}v{2 * _END}M{high},{middle - _END}v{2 * _END}"
        marks.append(f'<path class="bar c0" d="M{low},{middle}H{high}{ends}"/>')
    marks.append(_dot(point, across(point.y), middle, 0))
    return marks


def _dot(point: Point, x: float, y: float, colour: int) -> str:
    return (
        f'<circle class="dot c{colour}" cx="{x}" cy="{y}" r="{_DOT}">'
        f"<title>{escape(point.note)}</title></circle>"
    )


def _limit(limit: Limit, up: _Scale) -> str:
    y = up(limit.value)
    return (
        f'<line class="limit" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text class="limit-label" x="{_WIDTH - _RIGHT}" y="{y - 4}">{escape(limit.label)}</text>'
    )


def _y_axis(up: _Scale, axis: Axis, right: float) -> list[str]:
    marks = []
    for tick in up.ticks:
        y = up(tick)
        marks.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        marks.append(
            f'<text class="tick left" x="{_LEFT - 8}" y="{y + 4}">{escape(axis.text(tick))}</text>'
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    label = escape(axis.label)
    marks.append(
        f'<text class="axis" transform="translate(14,{middle}) rotate(-90)">{label}</text>'
    )
    return marks


def _x_axis(across: _Scale, axis: Axis, bottom: float, *, first: float = _LEFT) -> list[str]:
    marks = [
        f'<line class="rule" x1="{first}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    ]
    marks += [
        f'<text class="tick" x="{across(tick)}" y="{bottom + 17}">{escape(axis.text(tick))}</text>'
        for tick in across.ticks
    ]
    middle = (first + _WIDTH - _RIGHT) / 2
    marks.append(f'<text class="axis" x="{middle}" y="{bottom + 36}">{escape(axis.label)}</text>')
    return marks


def _legend(series: Sequence[Series]) -> Markup:
    if len(series) < 2:  # noqa: PLR2004 - one needs no name
        return Markup()
    keys = Markup()
    for place, each in enumerate(series):
        colour = (place if each.colour is None else each.colour) % _COLOURS
        dashed = " dashed" if each.dashed else ""
        keys += Markup('<span class="key"><i class="c{}{}"></i>{}</span>').format(
            colour, dashed, each.name
        )
    return Markup('<div class="legend">{}</div>').format(keys)


def _svg(title: str, height: float, body: Sequence[str]) -> Markup:
    name = escape(title)
    inside = "".join(body)
    return Markup(  # noqa: S704 - every text in it was escaped where it was put in
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">{inside}</svg>'
    )


def _round_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least as large."""
    power = 10.0 ** math.floor(math.log10(rough))
    smaller = list(takewhile(lambda factor: factor * power < rough * (1 - 1e-9), (1, 2, 5)))
    return power * ((1, 2, 5, 10)[len(smaller)])


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
