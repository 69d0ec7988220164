from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from support.compared import run, trial
from support.reports import loaded, run_document, run_results
from support.summaries import failed
from tare.api.reasons import Reason
from tare.measure.concerns import Concern
from tare.results.comparison import compare_runs
from tare.results.report.page import page_of
from tare.results.report.render import to_html
from tare.results.report.sweep import axis_of
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.results.document import RunResults

VOID = {"meta", "polyline", "circle", "line", "path"}


class Tags(HTMLParser):
    """Finds tags that are not closed, attributes, and the text of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


def table(results: RunResults, title: str, cell: int = 0) -> list[list[str]]:
    [found] = [t for t in page_of(results).cells[cell].tables if t.title == title]
    return [list(row) for row in found.rows]


def test_the_counts_stand_beside_every_latency() -> None:
    row = page_of(run_results()).results.rows[0]
    assert row[:4] == ("rate=4", "98/100", "90 ms", "200 ms")


def test_three_trials_have_an_interval_and_two_have_none() -> None:
    three = run_results(*(loaded(0, n, scale=1 + n / 10) for n in range(3)), number=1, trials=3)
    two = run_results(*(loaded(0, n, scale=1 + n / 10) for n in range(2)), number=1, trials=2)
    assert page_of(three).results.rows[0][3] == "220 ±50 ms"
    assert "Student" in page_of(three).results.note
    assert page_of(two).results.rows[0][3] == "210 ms"
    assert "An interval takes 3 trials." in page_of(two).results.note


def test_goals_are_named_with_the_cell_that_is_furthest_from_them() -> None:
    goals = page_of(run_results()).goals
    assert goals is not None
    assert goals.rows[0] == ("time_to_first_token p99 ≤ 250 ms", "400 ms", "rate=8", "1/2", "Fail")
    assert goals.tones[0] == "bad"


def test_the_verdicts_come_first_in_one_word_each() -> None:
    conditions = [
        {"type": "Finished", "status": "True", "message": "2 of 2 cells measured"},
        {"type": "GoalsMet", "status": "True", "reason": "AllMet", "message": "All goals."},
        {"type": "CacheAsPlanned", "status": "Unknown", "reason": "NotDecidable", "message": "m"},
        {"type": "MeasurementSound", "status": "False", "reason": "ClientSaturated"},
        {"type": "TargetReady", "status": "True", "reason": "Ready"},
    ]
    badges = page_of(run_results(run=run_document(conditions=conditions))).badges
    assert [(badge.word, badge.tone) for badge in badges] == [
        ("Succeeded", "good"),
        ("AllMet", "good"),
        ("NotDecidable", "unsure"),
        ("ClientSaturated", "bad"),
    ]


def test_each_cell_stands_beside_the_baseline_with_the_sentence_for_the_whole() -> None:
    rates = {"grid": {"phases.profiling.rate": [4, 8, 12]}}
    fast, slow = [trial([100.0, 110.0] * 30)] * 3, [trial([200.0, 210.0] * 30)] * 3
    baseline = run(fast, fast, fast, sweep=rates)
    results = run(slow, fast, [], name="after", sweep=rates)
    assert page_of(results).comparison is None
    assert "Against the baseline" not in to_html(results)
    found = compare_runs(baseline, results)
    compared = replace(results, summary=replace(results.summary, comparison=found))

    block = page_of(compared).comparison

    assert block is not None
    assert block.baseline == "bench/before, 2026-11-30T10:00:00Z, Qwen/Qwen3-8B"
    assert block.message.startswith("Regression: ")
    assert block.table.title.startswith("time_to_first_token mean: lower is better, 5 % is")
    assert [row[0] for row in block.table.rows] == ["rate=4", "rate=8", "rate=12"]
    assert block.table.rows[0][1:4] == ("105 ms", "205 ms", "+100 ±0 ms")
    assert [row[-1] for row in block.table.rows] == ["worse", "within 5 %", "not conclusive"]
    assert block.table.tones == ["bad", "good", "unsure"]
    assert any("rate=12 is not compared. The candidate did not" in note for note in block.notes)
    text = Tags(to_html(compared)).text
    assert "Against the baseline" in text
    assert found.message in text


def test_a_run_without_goals_is_not_judged_by_any() -> None:
    no_goals = [{"type": "GoalsMet", "status": "Unknown", "reason": "NoGoals", "message": ""}]
    results = run_results(run=run_document(conditions=no_goals))
    bare = replace(
        results.summary, cells=tuple(replace(c, goals=()) for c in results.summary.cells)
    )
    page = page_of(replace(results, summary=bare))
    assert page.goals is None
    assert [badge.name for badge in page.badges] == ["Run"]


def test_a_cell_without_numbers_says_why_before_the_table() -> None:
    page = page_of(run_results(loaded(0), failed(1)))
    assert page.concerns == ["rate=8: qwen-1 answered 404: VLLM_SERVER_DEV_MODE=1 is not set"]
    assert page.results.rows[1][:3] == ("rate=8", "Failed", "")
    assert page.cells[1].badge.tone == "bad"


def test_what_makes_a_number_doubtful_is_said_before_the_table() -> None:
    record = loaded(0)
    assert record.summary
    doubt = Concern(reason=Reason.CLIENT_SATURATED, message="the event loop lagged by 30 ms")
    record = replace(record, summary=replace(record.summary, concerns=(doubt,)))
    page = page_of(run_results(record, number=1))
    assert page.concerns == ["rate=4: Trial 0: the event loop lagged by 30 ms"]


def test_numbers_are_drawn_along_what_the_sweep_varies() -> None:
    figures = page_of(run_results()).figures
    titles = [figure.title for figure in figures]
    assert titles[:2] == ["time_to_first_token p50", "time_to_first_token p99"]
    assert "phases.profiling.rate" in figures[0].chart
    assert "time_to_first_token p99 ≤ 250 ms" in figures[1].chart


def test_the_load_goes_before_other_numbers_along_the_charts() -> None:
    cells = run_results().summary.cells
    lengths = [
        replace(c, overrides={"dataset.prompts.isl": i, **c.overrides}) for i, c in enumerate(cells)
    ]
    names = [replace(c, overrides={"endpoint.model": f"m{i}"}) for i, c in enumerate(cells)]
    same = [replace(c, overrides={"phases.profiling.rate": 4}) for c in cells]
    assert axis_of(lengths) == "phases.profiling.rate"
    assert axis_of(names) is None
    assert axis_of(same) is None


def test_cells_that_differ_in_no_number_are_drawn_below_each_other() -> None:
    results = run_results()
    named = tuple(
        replace(cell, name=f"m{number}", overrides={"endpoint.model": f"m{number}"})
        for number, cell in enumerate(results.summary.cells)
    )
    figures = page_of(replace(results, summary=replace(results.summary, cells=named))).figures
    assert ">m0<" in figures[0].chart


def test_a_run_of_one_cell_needs_no_chart_over_cells() -> None:
    assert page_of(run_results(loaded(0), number=1)).figures == []


def test_each_trial_has_a_row_with_its_reset_and_its_cache() -> None:
    [row] = table(run_results(), "Trials")
    assert row[:2] == ["0", "98/100"]
    assert row[3:5] == ["90 ms", "200 ms"]
    assert row[7:] == ["Confirmed", "-", "1.2 ms", "400 µs", "Measured"]


def test_within_a_trial_only_the_mean_has_an_interval_and_only_where_it_was_steady() -> None:
    steady = run_results(loaded(0, steady=True), number=1)
    [row] = table(steady, "Trials")
    assert row[2].startswith("100.0 ±")
    [drifting] = table(run_results(), "Trials")
    assert drifting[2] == "100 ms"


def test_a_cell_shows_how_its_requests_are_spread_and_how_they_went_on() -> None:
    spread, over_time = page_of(run_results()).cells[0].figures
    assert "time_to_first_token" in spread.chart
    [line] = re.findall(r'<polyline class="line c0" points="([^"]*)"', over_time.chart)
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert len(heights) == 40
    assert heights == sorted(heights, reverse=True), "each request was slower than the one before"


def test_hooks_and_failures_are_counted() -> None:
    assert table(run_results(), "Control hooks") == [
        ["reset", "qwen-0", "1/1", "4 ms", "1 confirmed"]
    ]
    assert table(run_results(), "Failed requests") == [
        ["profiling", "http_500", "2", "out of <memory>"]
    ]


def test_of_very_many_cells_those_that_failed_and_the_best_keep_their_parts() -> None:
    records = [loaded(n, scale=2.0) for n in range(70)]
    records[65], records[68] = failed(65), loaded(68)
    page = page_of(run_results(*records, number=70))
    names = [cell.anchor for cell in page.cells]
    assert len(names) == 60
    assert page.left_out == 10
    assert {"cell-65", "cell-68", "cell-0"} <= set(names)
    assert len(page.results.rows) == 70


@pytest.mark.parametrize("results", [run_results(), run_results(failed(0), number=1)])
def test_the_page_is_whole_and_loads_nothing(results: RunResults) -> None:
    page = to_html(results)
    tags = Tags(page)
    assert tags.open == []
    names = [name for name, _ in tags.attributes]
    assert not {"src", "href", "srcset", "onload"} & set(names)
    assert "url(" not in page
    assert "@import" not in page
    anchors = [value for name, value in tags.attributes if name == "id"]
    assert len(anchors) == len(set(anchors)) == len(results.summary.cells)


def test_the_same_results_give_the_same_page() -> None:
    assert to_html(run_results()) == to_html(run_results())


def test_what_a_user_or_a_server_wrote_stands_in_the_page_as_text() -> None:
    evil = "<script>alert(1)</script>"
    results = run_results(run=run_document(phase=evil))
    results = replace(results, summary=replace(results.summary, model=evil))
    page = to_html(results)
    assert "<script" not in page
    assert evil in Tags(page).text


def test_the_manifest_is_shown_without_the_values_of_headers_and_environment() -> None:
    run: dict[str, Any] = run_document()
    run["spec"]["endpoint"]["headers"] = [
        {"name": "X-Team", "value": "hush"},
        {"name": "X-Auth", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    run["spec"]["workers"] = {"replicas": 2, "env": [{"name": "PROXY", "value": "hush"}]}
    manifest = page_of(run_results(run=run)).manifest
    assert "name: PROXY\n      value: …\n" in manifest
    assert "name: X-Team\n      value: …\n" in manifest
    assert "secretKeyRef" in manifest
    assert "hush" not in to_html(run_results(run=run))
    assert "status:" not in manifest
