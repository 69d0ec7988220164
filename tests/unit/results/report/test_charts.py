from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.results.report.charts import Axis, Limit, Point, Series, line_chart, row_chart
from tare.results.units import number

VALUES = st.floats(min_value=0, max_value=1e9, allow_subnormal=False)
AXIS = Axis(label="x", text=number)


def drawn(chart: str) -> ET.Element:
    """Parse the drawing itself, without the legend behind it."""
    return ET.fromstring(chart[: chart.index("</svg>") + len("</svg>")])  # noqa: S314 - ours


def marks(chart: str, name: str) -> list[ET.Element]:
    return [mark for mark in drawn(chart).iter() if name in mark.get("class", "").split()]


def series(*pairs: tuple[float, float], half_width: float | None = None) -> Series:
    points = [Point(x=x, y=y, half_width=half_width, note=f"{x}|{y}") for x, y in pairs]
    return Series(name="s", points=points)


@given(
    pairs=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20),
    half_width=st.none() | st.floats(min_value=0, max_value=1e9),
    spread=st.booleans(),
    from_zero=st.booleans(),
    limit=st.none() | VALUES,
)
def test_whatever_is_drawn_lies_within_the_picture(
    pairs: list[tuple[float, float]],
    half_width: float | None,
    limit: float | None,
    *,
    spread: bool,
    from_zero: bool,
) -> None:
    axis = Axis(label="y", text=number, spread=spread, from_zero=from_zero)
    limits = [] if limit is None else [Limit(value=limit, label="goal")]
    chart = line_chart("t", AXIS, axis, [series(*pairs, half_width=half_width)], limits)
    _, _, width, height = map(float, drawn(chart).attrib["viewBox"].split())
    places = [
        (float(mark.get("cx", mark.get("x", 0))), float(mark.get("cy", mark.get("y", 0))))
        for mark in drawn(chart).iter()
        if mark.tag in {"circle", "text"} and mark.get("transform") is None
    ]
    assert len(places) > len(pairs)
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_larger_values_are_drawn_further_right_and_higher() -> None:
    dots = marks(line_chart("t", AXIS, AXIS, [series((1, 10), (2, 30), (4, 20))]), "dot")
    across = [float(dot.attrib["cx"]) for dot in dots]
    down = [float(dot.attrib["cy"]) for dot in dots]
    assert across == sorted(across)
    assert down[1] < down[2] < down[0]


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (7, ["0", "2", "4", "6", "8"]),
        (0.03, ["0", "0.01", "0.02", "0.03"]),
        (1234, ["0", "500", "1,000", "1,500"]),
    ],
)
def test_an_axis_has_round_numbers_up_to_the_highest_value(
    highest: float, ticks: list[str]
) -> None:
    chart = line_chart("t", AXIS, AXIS, [series((1, highest))])
    assert [mark.text for mark in marks(chart, "left")] == ticks


def test_latencies_that_are_far_apart_are_drawn_by_their_powers_of_ten() -> None:
    axis = Axis(label="y", text=number, spread=True)
    near = marks(line_chart("t", AXIS, axis, [series((1, 0.1), (2, 0.9))]), "left")
    far = marks(line_chart("t", AXIS, axis, [series((1, 0.1), (2, 9.0))]), "left")
    assert [mark.text for mark in near] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [mark.text for mark in far] == ["0.1", "0.2", "0.5", "1", "2", "5", "10"]


def test_values_next_to_nothing_are_drawn_like_others() -> None:
    axis = Axis(label="y", text=number, spread=True)
    dots = marks(line_chart("t", AXIS, axis, [series((1, 1e-38), (2, 1e-36), (3, 0))]), "dot")
    down = [float(dot.attrib["cy"]) for dot in dots]
    assert down[1] < down[0] <= down[2]


def test_a_value_with_an_interval_has_a_bar_as_long_as_it_is_unsure() -> None:
    unsure = marks(line_chart("t", AXIS, AXIS, [series((1, 10), half_width=2)]), "bar")
    sure = marks(line_chart("t", AXIS, AXIS, [series((1, 10))]), "bar")
    assert (len(unsure), sure) == (1, [])


def test_a_goal_is_drawn_unless_it_is_far_above_everything() -> None:
    near = line_chart("t", AXIS, AXIS, [series((1, 10))], [Limit(value=12, label="goal ≤ 12")])
    far = line_chart("t", AXIS, AXIS, [series((1, 10))], [Limit(value=99, label="goal ≤ 99")])
    assert "goal ≤ 12" in near
    assert "goal" not in far


def test_what_a_user_named_stands_in_a_chart_as_text() -> None:
    evil = '<script>"&'
    point = Point(x=1, y=1, note=evil)
    lines = [Series(name=evil, points=[point]), Series(name="b", points=[point])]
    axis = Axis(label=evil, text=number)
    limits = [Limit(value=1, label=evil)]
    for chart in (
        line_chart(evil, axis, axis, lines, limits),
        row_chart(evil, axis, [(evil, point)], limits),
    ):
        assert "<script" not in chart
        assert evil in "".join(drawn(chart).itertext())


def test_every_row_has_its_name_and_its_value() -> None:
    rows = [(f"cell {n}", Point(x=0, y=n, half_width=0.5, note=f"{n} s")) for n in range(1, 6)]
    chart = row_chart("t", AXIS, rows)
    assert [mark.text for mark in marks(chart, "name")] == [name for name, _ in rows]
    assert re.findall(r"<title>(\d s)</title>", chart) == [f"{n} s" for n in range(1, 6)]
    places = [float(dot.attrib["cx"]) for dot in marks(chart, "dot")]
    assert places == sorted(places)


def test_without_a_point_there_is_no_chart() -> None:
    assert line_chart("t", AXIS, AXIS, []) == ""
    assert row_chart("t", AXIS, []) == ""
