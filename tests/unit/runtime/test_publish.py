"""From status to Prometheus: what is exported of a run, and that nothing stays behind."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.measured import MS, histogram
from support.trials import OWNER
from support.workers import progress
from tare.runtime.publish import publish, run_name, show_live
from tare.telemetry.metrics import Metrics

LABELS = {"namespace": "bench", "run": "qwen"}
METRICS = {
    "request_throughput": "12.5 ±0.1",
    "output_token_throughput": "1600.0",
    "time_to_first_token_p50": "0.09 ±0.01",
    "time_to_first_token_p99": "0.2",
    "request_latency_p99": "2.0",
    "error_rate": "0.02",
}


def document(**status: Any) -> dict[str, Any]:
    return {
        "spec": {"endpoint": {"model": "Qwen/Qwen3-8B:fp8", "server": "vllm"}},
        "status": status,
    }


def row(index: int = 0, state: str = "Measured", **fields: Any) -> dict[str, Any]:
    return {"index": index, "name": f"rate={index}", "state": state, **fields}


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Samples of runs by name and the values of the labels beside namespace and run."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            if sample.labels.items() >= LABELS.items():
                rest = sorted(item for item in sample.labels.items() if item[0] not in LABELS)
                found[sample.name, *(value for _, value in rest)] = sample.value
    return found


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_a_run_that_nobody_has_looked_at_is_pending(metrics: Metrics) -> None:
    publish(metrics, OWNER, {"spec": {"endpoint": {"model": "m"}}})
    assert samples(metrics) == {
        ("tare_run_info", "m", "generic"): 1,
        ("tare_run_phase", "Pending"): 1,
    }


def test_b94_the_model_is_exported_as_it_is_written(metrics: Metrics) -> None:
    publish(metrics, OWNER, document())
    assert ("tare_run_info", "Qwen/Qwen3-8B:fp8", "vllm") in samples(metrics)


def test_cells_are_counted_by_their_state(metrics: Metrics) -> None:
    cells = [row(0), row(1), row(2, "Running"), row(3, "Pending")]
    publish(metrics, OWNER, document(phase="Running", cells=cells))
    found = samples(metrics)
    assert found["tare_run_cells", "Measured"] == 2
    assert found["tare_run_cells", "Running"] == 1


def test_a_measured_cell_has_its_six_headlines(metrics: Metrics) -> None:
    publish(metrics, OWNER, document(phase="Running", cells=[row(0, metrics=METRICS)]))
    found = {key: value for key, value in samples(metrics).items() if "tare_cell" in key[0]}
    assert found == {
        ("tare_cell_request_throughput", "rate=0", "mean"): 12.5,
        ("tare_cell_output_token_throughput", "rate=0", "mean"): 1600.0,
        ("tare_cell_time_to_first_token_seconds", "rate=0", "p50"): 0.09,
        ("tare_cell_time_to_first_token_seconds", "rate=0", "p99"): 0.2,
        ("tare_cell_request_latency_seconds", "rate=0", "p99"): 2.0,
        ("tare_cell_error_rate_ratio", "rate=0", "mean"): 0.02,
    }


@pytest.mark.parametrize(("status", "value"), [("True", 1.0), ("False", 0.0), ("Unknown", None)])
def test_goals_are_exported_once_they_are_decided(
    metrics: Metrics, status: str, value: float | None
) -> None:
    publish(metrics, OWNER, document(conditions=[condition("GoalsMet", status)]))
    assert samples(metrics).get(("tare_run_goals_met",)) == value


def test_publishing_again_replaces_what_was_there(metrics: Metrics) -> None:
    publish(metrics, OWNER, document(phase="Running", cells=[row(0, "Running")]))
    publish(metrics, OWNER, document(phase="Succeeded", cells=[row(0)]))
    found = samples(metrics)
    assert ("tare_run_phase", "Running") not in found
    assert ("tare_run_cells", "Running") not in found
    assert found["tare_run_phase", "Succeeded"] == 1


def test_b114_after_its_deletion_no_series_of_a_run_is_left(metrics: Metrics) -> None:
    publish(metrics, OWNER, document(phase="Running", cells=[row(0, metrics=METRICS)]))
    show_live(metrics, OWNER, cell="rate=0", phase="profiling", reports=[progress()])
    assert samples(metrics)
    metrics.forget(run_name(OWNER))
    assert samples(metrics) == {}
    assert OWNER.name.encode() not in metrics.render()


def test_b114_a_large_run_stays_within_its_budget_and_shows_no_uid_or_error(
    metrics: Metrics,
) -> None:
    cells = [row(index, metrics=METRICS, message="x" * 200) for index in range(100)]
    publish(metrics, OWNER, document(phase="Running", cells=cells))
    show_live(metrics, OWNER, cell="rate=0", phase="profiling", reports=[progress()])
    assert 100 < len(samples(metrics)) <= 200
    text = metrics.render().decode()
    assert OWNER.uid not in text
    assert "xxx" not in text


def test_the_live_phase_is_the_sum_of_its_workers(metrics: Metrics) -> None:
    publish(metrics, OWNER, document(phase="Running"))
    reports = [
        progress(0, time_to_first_token=histogram([50 * MS, 100 * MS])),
        progress(1, time_to_first_token=histogram([150 * MS, 900 * MS])),
    ]
    show_live(metrics, OWNER, cell="rate=4", phase="profiling", reports=reports)
    live = {key: value for key, value in samples(metrics).items() if "tare_live" in key[0]}
    assert live == {
        ("tare_live_in_flight", "rate=4", "profiling"): 10,
        ("tare_live_requests", "rate=4", "profiling", "issued"): 200,
        ("tare_live_requests", "rate=4", "profiling", "ok"): 170,
        ("tare_live_requests", "rate=4", "profiling", "failed"): 20,
        ("tare_live_time_to_first_token_seconds", "rate=4", "profiling", "p50"): 0.1,
        ("tare_live_time_to_first_token_seconds", "rate=4", "profiling", "p99"): 0.9,
    }


def test_before_the_first_token_there_is_no_percentile(metrics: Metrics) -> None:
    publish(metrics, OWNER, document(phase="Running"))
    show_live(metrics, OWNER, cell="rate=4", phase="warmup", reports=[progress()])
    names = {key[0] for key in samples(metrics)}
    assert "tare_live_requests" in names
    assert "tare_live_time_to_first_token_seconds" not in names


def test_a_finished_run_shows_nothing_live(metrics: Metrics) -> None:
    publish(metrics, OWNER, document(phase="Running"))
    show_live(metrics, OWNER, cell="rate=4", phase="profiling", reports=[progress()])
    publish(metrics, OWNER, document(phase="Succeeded", conditions=[condition("Finished", "True")]))
    assert not [key for key in samples(metrics) if "tare_live" in key[0]]
