"""Whole runs against each other: which cells, which refusals, and the sentence at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.compared import run, spec, trial
from tare.api.reasons import Reason
from tare.measure.comparison import Change
from tare.measure.side import Measure
from tare.results.comparison import ComparisonError, RunComparison, compare_runs

if TYPE_CHECKING:
    from tare.measure.trial import TrialSummary
    from tare.results.document import RunResults

FAST, SLOW = trial([50.0 + n % 7 for n in range(100)]), trial([60.0 + n % 7 for n in range(100)])
RATES = {"grid": {"phases.profiling.rate": [4, 8]}}


def compared(baseline: RunResults, candidate: RunResults, **fields: Any) -> RunComparison:
    return compare_runs(baseline, candidate, **{"tolerance": 0.05, **fields})


def refusals(**fields: Any) -> tuple[str, ...]:
    """Why a run with these fields is not compared with one without them."""
    [cell] = compared(run([FAST]), run([FAST], **fields)).cells
    assert cell.primary is None or not cell.refusals
    return cell.refusals


def phase(**fields: Any) -> dict[str, Any]:
    return {**spec()["phases"][0], **fields}


def test_cells_are_matched_by_their_overrides_and_the_rest_is_named() -> None:
    before = run([SLOW], [FAST], sweep=RATES)
    after = run([SLOW], [FAST], sweep={"grid": {"phases.profiling.rate": [8, 12]}})
    found = compared(before, after)
    assert [cell.name for cell in found.cells] == ["rate=8"]
    assert found.cells[0].change is Change.WORSE
    assert (found.only_baseline, found.only_candidate) == (("rate=4",), ("rate=12",))


def test_one_worse_cell_is_a_regression() -> None:
    found = compared(run([FAST], [FAST], sweep=RATES), run([FAST], [SLOW], sweep=RATES))
    assert found.regression is True
    assert found.message.startswith(
        "Regression: time_to_first_token mean is worse by more than 5 % in 1 of 2 cells: "
        "rate=8 (+18.9"
    )


def test_no_worse_cell_is_none_and_says_what_the_cells_are() -> None:
    found = compared(run([FAST], [SLOW], sweep=RATES), run([FAST], [FAST], sweep=RATES))
    assert found.regression is False
    assert found.message == (
        "No regression: time_to_first_token mean is not worse by more than 5 % in any of 2 cells: "
        "1 within the tolerance, 1 better."
    )


def test_a_cell_that_was_not_measured_leaves_the_comparison_open() -> None:
    found = compared(run([FAST], [FAST], sweep=RATES), run([FAST], [], sweep=RATES))
    assert found.regression is None
    assert found.cells[1].refusals == (
        "The candidate did not measure it: Failed (the server answered 404).",
    )
    assert "is open in 1 of 2 cells: rate=8" in found.message


def test_a_regression_counts_although_another_cell_is_open() -> None:
    found = compared(run([FAST], [FAST], sweep=RATES), run([SLOW], [], sweep=RATES))
    assert found.regression is True


def test_runs_without_a_common_cell_are_not_conclusive() -> None:
    found = compared(run([FAST]), run([FAST], [FAST], sweep=RATES))
    assert (found.regression, found.cells) == (None, ())
    assert found.message == "Not conclusive: the runs have no cell in common."


@pytest.mark.parametrize(
    ("fields", "path", "values"),
    [
        ({"dataset": {"prompts": {"isl": 64, "osl": 10}, "seed": 8}}, "dataset.seed", ("7", "8")),
        (
            {"dataset": {"prompts": {"isl": 80, "osl": 10}, "seed": 7}},
            "dataset.prompts.isl",
            ("64", "80"),
        ),
        ({"phases": [phase(rate=12)]}, "phases.profiling.rate", ("10", "12")),
        ({"phases": [phase(requests=90)]}, "phases.profiling.requests", ("100", "90")),
        (
            {"phases": [phase(name="warm", kind="warmup"), phase()]},
            "phases",
            ("profiling", "warm, profiling"),
        ),
        (
            {"endpoint": {**spec()["endpoint"], "extraBody": {"ignore_eos": True}}},
            "endpoint.extraBody.ignore_eos",
            ("unset", "true"),
        ),
        (
            {"endpoint": {**spec()["endpoint"], "streaming": False}},
            "endpoint.streaming",
            ("true", "false"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_workload_is_refused_with_both_values(
    fields: dict[str, Any], path: str, values: tuple[str, str]
) -> None:
    before, after = values
    [found] = [text for text in refusals(**fields) if text.startswith(f"spec.{path} is ")]
    assert f" is {before} in the baseline and {after} in the candidate" in found


def test_every_trait_of_the_workload_that_differs_is_named() -> None:
    found = refusals(dataset={"prompts": {"isl": 80, "osl": 20}, "seed": 7})
    assert len(found) == 2


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("endpoint.model", {"model": "Qwen/Qwen3-14B"}),
        ("endpoint.type", {"type": "completions"}),
    ],
)
def test_another_model_or_type_is_compared_only_if_asked(path: str, other: dict[str, Any]) -> None:
    before = run([FAST])
    after = run([SLOW], endpoint={**spec()["endpoint"], **other})
    [refusal] = compared(before, after).cells[0].refusals
    assert f"`tare compare --allow {path}` compares them all the same" in refusal
    found = compared(before, after, allowed=[path])
    assert found.regression is True
    assert [text for text in found.differences if text.startswith(f"{path}: ")]


def test_other_servers_are_told_and_compared() -> None:
    def target(version: str, digit: str) -> dict[str, Any]:
        image = f"vllm/vllm-openai@sha256:{digit * 4}"
        return {"serverVersion": version, "replicas": [{"name": "qwen-0", "image": image}]}

    endpoint = {**spec()["endpoint"], "via": "Endpoints"}
    before = run([FAST], target=target("0.29.0", "a"))
    after = run([FAST], target=target("0.30.1", "b"), endpoint=endpoint, workers={"replicas": 2})
    found = compared(before, after)
    assert found.regression is False
    assert found.differences == (
        "server version: 0.29.0 -> 0.30.1",
        "images: vllm/vllm-openai@sha256:aaaa -> vllm/vllm-openai@sha256:bbbb",
        "endpoint.via: Service -> Endpoints",
        "workers.replicas: 1 -> 2",
    )


def test_no_value_of_a_header_or_variable_is_told() -> None:
    def secret(value: str) -> RunResults:
        endpoint = {**spec()["endpoint"], "headers": [{"name": "X-Key", "value": value}]}
        return run([FAST], endpoint=endpoint, workers={"env": [{"name": "KEY", "value": value}]})

    found = compared(secret("swordfish-1"), secret("swordfish-2"))
    assert found.differences == (
        "endpoint.headers: one value -> another",
        "workers.env: one value -> another",
    )
    assert "swordfish" not in str(found)


def test_goodput_is_compared_only_with_the_same_limits() -> None:
    before = run([FAST], goodput={"time_to_first_token": "500ms"})
    after = run([FAST], goodput={"time_to_first_token": "400ms"})
    assert compared(before, after).cells[0].refusals == ()
    goodput = Measure(metric="goodput", statistic="mean")
    [refusal] = compared(before, after, measure=goodput).cells[0].refusals
    assert "spec.goodput.time_to_first_token is 500ms in the baseline and 400ms" in refusal


def test_what_was_measured_is_held_against_each_other_too() -> None:
    found = compared(run([FAST]), run([FAST], cache=Reason.NOT_REPORTED))
    [refusal] = found.cells[0].refusals
    assert "AsPlanned in the baseline, NotReported in the candidate" in refusal
    assert found.regression is None


@pytest.mark.parametrize(
    ("goals", "expected"),
    [
        ([], ("time_to_first_token", "mean")),
        (
            [{"metric": "request_latency", "statistic": "p99", "max": "2s"}],
            ("request_latency", "p99"),
        ),
        (
            [
                {"metric": "output_tokens", "statistic": "mean", "min": "9"},
                {"metric": "request_throughput", "min": "3"},
            ],
            ("request_throughput", "mean"),
        ),
    ],
    ids=["without goals", "the first goal", "the first goal with a direction"],
)
def test_the_candidates_first_goal_is_the_primary_metric(
    goals: list[dict[str, Any]], expected: tuple[str, str]
) -> None:
    found = compared(run([FAST]), run([FAST], goals=goals))
    assert (found.metric, found.statistic) == expected


def test_the_metric_that_was_asked_for_comes_before_the_goals() -> None:
    goals = [{"metric": "request_throughput", "min": "3"}]
    latency = Measure(metric="request_latency", statistic="mean")
    found = compared(run([FAST]), run([FAST], goals=goals), measure=latency)
    assert found.metric == "request_latency"
    assert {other.metric for other in found.cells[0].others if other.statistic == "mean"} == {
        "time_to_first_token",
        "time_per_output_token",
        "request_throughput",
        "error_rate",
    }


def test_an_interval_from_within_single_trials_says_what_it_does_not_know() -> None:
    def texts(trials: list[TrialSummary]) -> str:
        return " ".join(compared(run(trials), run(trials)).cells[0].doubts)

    assert "not how much a repetition would" in texts([FAST])
    assert "not how much a repetition would" not in texts([FAST] * 3)


def test_a_spec_that_is_not_understood_is_refused() -> None:
    old = run([FAST])
    old = replace(old, run={**old.run, "spec": {**old.run["spec"], "gone": 1}})
    with pytest.raises(ComparisonError, match=r"spec of the baseline .*gone"):
        compared(old, run([FAST]))


def test_damaged_rows_are_refused() -> None:
    [phase_result] = FAST.phases
    damaged = replace(FAST, phases=(replace(phase_result, rows={"most": 1, "level": 0}),))
    with pytest.raises(ComparisonError, match="no rows of requests"):
        compared(run([FAST]), run([damaged]))
