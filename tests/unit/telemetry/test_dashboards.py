from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tare.api.reasons import CellState, RunPhase
from tare.telemetry.dashboards.run import run_dashboard
from tare.telemetry.metrics import Metrics
from tare.telemetry.run_series import HEADLINES, LiveCell, RunName, RunState

Json = dict[str, Any]

DASHBOARD = run_dashboard()
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EACH = pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
_METRIC = re.compile(r"\btare_[a-z_]+")
_LABEL = re.compile(r"(\w+)=~?\"|by \(([^)]*)\)")


def exported() -> dict[str, set[str]]:
    """Every series that an operator can export, with its labels."""
    metrics, name = Metrics(), RunName("bench", "qwen")
    metrics.update_run(
        name,
        RunState(
            model="m", server="vllm", phase=RunPhase.RUNNING, cells={CellState.RUNNING: 1},
            goals_met=True,
        ),
    )  # fmt: skip
    metrics.publish_cell(name, "c", {line.metric: {line.statistic: 1.0} for line in HEADLINES})
    live = LiveCell(
        cell="c", phase="p", in_flight=1, issued=1, ok=1, failed=1, ttft_p50=1.0, ttft_p99=1.0
    )
    metrics.show_live(name, live)
    metrics.hook_calls.labels("reset", "confirmed").inc()
    metrics.requests.labels("ok").inc()
    metrics.inbox_requests.labels("wait", "200").inc()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(panel: Json) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def test_the_dashboard_keeps_its_address() -> None:
    assert (DASHBOARD["uid"], DASHBOARD["title"]) == ("tare-run", "Tare / Run")


def test_panels_have_ids_of_their_own() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_titles_are_not_repeated() -> None:
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)


def test_panels_lie_side_by_side_within_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        rows = range(place["y"], place["y"] + place["h"])
        squares = set(itertools.product(columns, rows))
        assert columns.stop <= 24
        assert not squares & taken
        taken |= squares


@EACH
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: Json) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]


@EACH
def test_a_panel_asks_the_data_source_that_was_chosen(panel: Json) -> None:
    assert panel["datasource"]["uid"] == "${datasource}"
    assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


@EACH
def test_every_query_is_named(panel: Json) -> None:
    assert [target["refId"] for target in panel["targets"]] == list("ABC"[: len(panel["targets"])])
    assert all(target["legendFormat"] for target in panel["targets"])


@EACH
def test_counters_are_only_shown_as_rates_over_the_interval_that_fits_the_scrapes(
    panel: Json,
) -> None:
    for expr in expressions(panel):
        counters = re.findall(r"\w+_(?:total|bucket)\b", expr)
        assert len(re.findall(r"rate\(\w+\[\$__rate_interval\]\)", expr)) == len(counters)


@EACH
def test_every_metric_and_label_that_a_panel_asks_for_is_exported(panel: Json) -> None:
    known = exported()
    for target in panel["targets"]:
        (metric,) = _METRIC.findall(target["expr"])
        used = {
            label.strip()
            for one, several in _LABEL.findall(target["expr"])
            for label in (one or several).split(",")
        }
        used |= set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert used <= known[metric]


@EACH
def test_a_panel_of_the_run_shows_that_run_only(panel: Json) -> None:
    for expr in expressions(panel):
        if re.search(r"tare_(run|live|cell)_", expr):
            assert 'namespace="$namespace", run="$run"' in expr


def test_the_choices_are_filled_from_runs_that_exist() -> None:
    known = exported()
    for variable in DASHBOARD["templating"]["list"][1:]:
        query = variable["query"]["query"]
        metric, label = re.findall(r"label_values\((\w+)(?:{.*})?, (\w+)\)", query)[0]
        assert label in known[metric]
