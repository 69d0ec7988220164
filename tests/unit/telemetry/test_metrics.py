from __future__ import annotations

import itertools
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from tare.api.reasons import CellState, RunPhase
from tare.measure import metrics as measure_metrics
from tare.telemetry import run_series
from tare.telemetry.metrics import Metrics
from tare.telemetry.run_series import (
    FINISHED_SECONDS,
    MAX_CELLS,
    MAX_SERIES,
    LiveCell,
    RunName,
    RunState,
)

VALUES = {
    "time_to_first_token": {"p50": 0.1, "p90": 0.2, "p99": 0.3},
    "request_latency": {"p50": 1.0, "p99": 2.0},
    "request_throughput": {"mean": 12.0},
    "output_token_throughput": {"mean": 900.0},
    "error_rate": {"mean": 0.0},
}
"""More than the headlines, as the runtime hands it over."""

LIVE = LiveCell(
    cell="30",
    phase="profiling",
    in_flight=3,
    issued=10,
    ok=6,
    failed=1,
    ttft_p50=0.1,
    ttft_p99=0.2,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def state(*, finished: bool = False, goals_met: bool | None = True) -> RunState:
    return RunState(
        model="Qwen/Qwen3-8B",
        server="vllm",
        phase=RunPhase.SUCCEEDED if finished else RunPhase.RUNNING,
        cells=dict.fromkeys(CellState, 5),
        goals_met=goals_met,
        finished=finished,
    )


def fill(metrics: Metrics, name: RunName, *, cells: int = 40) -> None:
    """A live run at its largest."""
    metrics.update_run(name, state())
    for cell in range(cells):
        metrics.publish_cell(name, str(cell), VALUES)
    metrics.show_live(name, LIVE)


def samples(metrics: Metrics) -> list[tuple[str, dict[str, str], float]]:
    """Every series of the exposition, as Prometheus reads it."""
    families = text_string_to_metric_families(metrics.render().decode())
    return [(s.name, s.labels, s.value) for family in families for s in family.samples]


def of_run(metrics: Metrics, run: str) -> list[tuple[str, dict[str, str], float]]:
    return [sample for sample in samples(metrics) if sample[1].get("run") == run]


def test_a_live_run_with_more_cells_than_fit_stays_within_200_series() -> None:
    metrics = Metrics()
    fill(metrics, RunName("bench", "q"))
    series = of_run(metrics, "q")
    assert len({labels["cell"] for name, labels, _ in series if "_cell_" in name}) == MAX_CELLS
    assert MAX_CELLS * 6 < len(series) <= 200


def test_a_finished_run_has_at_most_ten_series_after_an_hour_and_keeps_its_cells_until_then() -> (
    None
):
    clock = Clock()
    metrics = Metrics(clock=clock)
    fill(metrics, RunName("bench", "q"))
    metrics.update_run(RunName("bench", "q"), state(finished=True))
    clock.now = FINISHED_SECONDS - 1
    assert len(of_run(metrics, "q")) > 100
    clock.now = FINISHED_SECONDS
    names = Counter(name for name, _, _ in of_run(metrics, "q"))
    assert 0 < names.total() <= 10
    assert "tare_run_phase" in names


def test_repeating_that_a_run_is_finished_does_not_prolong_its_hour() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    fill(metrics, RunName("bench", "q"))
    metrics.update_run(RunName("bench", "q"), state(finished=True))
    clock.now = FINISHED_SECONDS
    metrics.update_run(RunName("bench", "q"), state(finished=True))
    assert len(of_run(metrics, "q")) <= 10


def test_the_live_series_of_a_run_end_with_it() -> None:
    metrics = Metrics()
    fill(metrics, RunName("bench", "q"))
    metrics.update_run(RunName("bench", "q"), state(finished=True))
    metrics.show_live(RunName("bench", "q"), LIVE)
    assert not [name for name, _, _ in of_run(metrics, "q") if "live" in name]


def test_fifty_deleted_runs_leave_no_series_behind() -> None:
    metrics = Metrics()
    for number in range(50):
        name = RunName("bench", f"run-{number}")
        fill(metrics, name)
        metrics.update_run(name, state(finished=True))
    for number in range(50):
        metrics.forget(RunName("bench", f"run-{number}"))
    assert not [labels for _, labels, _ in samples(metrics) if "run" in labels]


def test_a_report_that_arrives_after_the_deletion_brings_no_series_back() -> None:
    metrics = Metrics()
    name = RunName("bench", "q")
    fill(metrics, name)
    metrics.forget(name)
    metrics.show_live(name, LIVE)
    metrics.publish_cell(name, "1", VALUES)
    assert of_run(metrics, "q") == []


def test_the_budget_of_all_series_evicts_whole_runs_and_counts_what_went() -> None:
    metrics = Metrics()
    runs = [RunName("bench", f"run-{number}") for number in range(140)]
    for name in runs:
        fill(metrics, name, cells=MAX_CELLS)
    everything = samples(metrics)
    assert MAX_SERIES * 0.9 < len(everything) <= MAX_SERIES
    per_run = Counter(labels["run"] for _, labels, _ in everything if "run" in labels)
    assert len(set(per_run.values())) == 1, "a run keeps all of its series or none"
    assert list(per_run) == [name.name for name in runs[-len(per_run) :]], "the oldest went"
    evicted = next(value for name, _, value in everything if name == "tare_series_evicted_total")
    assert evicted == (len(runs) - len(per_run)) * per_run.total() / len(per_run)


def test_the_run_that_was_updated_longest_ago_is_evicted_first() -> None:
    metrics = Metrics(budget=200 + 400)
    for run in ("a", "b"):
        fill(metrics, RunName("bench", run), cells=MAX_CELLS)
    metrics.update_run(RunName("bench", "a"), state())
    fill(metrics, RunName("bench", "c"), cells=MAX_CELLS)
    assert [bool(of_run(metrics, run)) for run in "abc"] == [True, False, True]


def test_a_value_that_is_no_number_has_no_series() -> None:
    metrics = Metrics()
    name = RunName("bench", "q")
    metrics.update_run(name, state(goals_met=None))
    metrics.publish_cell(name, "0", {"time_to_first_token": {"p50": None, "p99": float("nan")}})
    names = {name for name, _, _ in of_run(metrics, "q")}
    assert names == {"tare_run_info", "tare_run_phase", "tare_run_cells"}


def test_a_run_shows_the_phase_it_is_in_and_no_other() -> None:
    metrics = Metrics()
    name = RunName("bench", "q")
    metrics.update_run(name, state())
    metrics.update_run(name, state(finished=True))
    phases = [labels["phase"] for n, labels, _ in of_run(metrics, "q") if n == "tare_run_phase"]
    assert phases == ["Succeeded"]


def test_runs_of_one_name_in_two_namespaces_do_not_mix() -> None:
    metrics = Metrics()
    fill(metrics, RunName("a", "q"))
    fill(metrics, RunName("b", "q"))
    metrics.forget(RunName("a", "q"))
    assert {labels["namespace"] for _, labels, _ in of_run(metrics, "q")} == {"b"}


def test_every_family_has_a_help_text_and_the_names_follow_the_conventions() -> None:
    metrics = Metrics()
    fill(metrics, RunName("bench", "q"))
    metrics.hook_calls.labels("reset", "confirmed").inc()
    for family in text_string_to_metric_families(metrics.render().decode()):
        if family.name.startswith("tare_"):
            assert family.documentation.endswith(".")
            assert not family.name.endswith(("_ms", "_millis", "_percent"))
            if family.type == "counter":
                assert all(sample.name.endswith("_total") for sample in family.samples)


def test_two_registries_share_nothing() -> None:
    first, second = Metrics(), Metrics()
    first.requests.labels("ok").inc(5)
    assert not [value for name, _, value in samples(second) if name == "tare_requests_total"]


def test_one_family_has_one_set_of_label_names() -> None:
    metrics = Metrics()
    fill(metrics, RunName("bench", "q"))
    by_name = sorted((name, tuple(sorted(labels))) for name, labels, _ in of_run(metrics, "q"))
    for name, group in itertools.groupby(by_name, key=lambda pair: pair[0]):
        assert len({labels for _, labels in group}) == 1, name


def test_the_headlines_are_those_that_the_measures_name() -> None:
    exported = {(line.metric, line.statistic) for line in run_series.HEADLINES}
    assert exported == set(measure_metrics.HEADLINES)
