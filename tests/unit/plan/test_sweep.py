from __future__ import annotations

import copy
from typing import Any

import pytest

from tare.plan.sweep import MAX_POINTS, ONLY_POINT, Point, SweepError, expand

RATE = "phases.profiling.rate"
ISL = "dataset.prompts.isl"

SPEC: dict[str, Any] = {
    "endpoint": {"service": {"name": "qwen"}, "model": "Qwen/Qwen3-8B"},
    "dataset": {"type": "synthetic", "prompts": {"isl": 512, "osl": 128}},
    "phases": [
        {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 8},
        {"name": "profiling", "kind": "profiling", "type": "constant", "rate": 12},
    ],
    "workers": {"replicas": 2},
}


def points(**sweep: Any) -> tuple[Point, ...]:
    return expand({**copy.deepcopy(SPEC), "sweep": sweep})


def refusal(**sweep: Any) -> SweepError:
    with pytest.raises(SweepError) as caught:
        points(**sweep)
    return caught.value


def rate_of(point: Point) -> Any:
    return point.spec["phases"][1]["rate"]


def test_a_spec_without_a_sweep_is_its_only_point() -> None:
    (point,) = expand(SPEC)

    assert (point.index, point.name, point.overrides) == (0, ONLY_POINT, {})
    assert point.spec == SPEC


def test_a_grid_is_every_combination_with_the_last_axis_fastest() -> None:
    grid = points(grid={RATE: [4, 8], ISL: [128, 512, 2048]})

    assert [(rate_of(p), p.spec["dataset"]["prompts"]["isl"]) for p in grid] == [
        (4, 128), (4, 512), (4, 2048), (8, 128), (8, 512), (8, 2048),
    ]  # fmt: skip
    assert [point.index for point in grid] == list(range(6))
    assert grid[1].overrides == {RATE: 4, ISL: 512}


def test_a_zip_takes_the_values_side_by_side() -> None:
    zipped = points(zip={ISL: [128, 2048], "dataset.prompts.osl": [2048, 128]})

    assert [point.spec["dataset"]["prompts"] for point in zipped] == [
        {"isl": 128, "osl": 2048},
        {"isl": 2048, "osl": 128},
    ]


def test_scenarios_are_written_down_one_by_one() -> None:
    chat, rag = points(
        scenarios=[
            {"name": "chat", "set": {}},
            {"name": "rag", "set": {ISL: 8000, RATE: 1}},
        ]
    )

    assert (chat.name, rate_of(chat)) == ("chat", 12)
    assert (rag.name, rate_of(rag), rag.spec["dataset"]["prompts"]["isl"]) == ("rag", 1, 8000)


def test_a_resolved_spec_holds_no_sweep_and_shares_nothing_with_its_neighbours() -> None:
    one, two = points(grid={RATE: [4, 8]})

    assert "sweep" not in one.spec
    one.spec["dataset"]["prompts"]["isl"] = 1
    assert two.spec["dataset"]["prompts"]["isl"] == 512


def test_only_the_named_phase_changes() -> None:
    (point, _) = points(grid={"phases.warmup.concurrency": [1, 2]})

    assert [phase.get("concurrency") for phase in point.spec["phases"]] == [1, None]


def test_objects_on_the_way_are_made_when_they_are_missing() -> None:
    path = "dataset.prompts.cacheBust.target"

    none, bust = points(grid={path: ["none", "first_turn_prefix"]})

    assert none.spec["dataset"]["prompts"]["cacheBust"] == {"target": "none"}
    assert bust.name == "target=first_turn_prefix"


def test_a_value_may_be_a_whole_object() -> None:
    fixed, spread = points(grid={ISL: [512, {"mean": 512, "stddev": 64}]})

    assert fixed.name == "isl=512"
    assert spread.name == 'isl={"mean":512,"stddev":64}'


def test_names_take_as_much_of_the_path_as_tells_the_axes_apart() -> None:
    (first, *_) = points(
        grid={"phases.warmup.concurrency": [1], "phases.profiling.concurrency": [2]}
    )

    assert first.name == "warmup.concurrency=1,profiling.concurrency=2"


def test_a_long_name_is_cut_and_carries_the_number_of_its_point() -> None:
    one, two = points(grid={"endpoint.model": ["m" * 100 + "1", "m" * 100 + "2"]})

    assert (len(one.name), len(two.name)) == (63, 63)
    assert (one.name[-3:], two.name[-3:]) == ("…#0", "…#1")


def test_the_cool_down_is_no_axis_and_unset_forms_do_not_count() -> None:
    assert len(points(grid={RATE: [1, 2]}, zip=None, search=None, coolDownSeconds=5)) == 2


def test_five_hundred_points_are_allowed() -> None:
    assert len(points(grid={RATE: list(range(MAX_POINTS))})) == MAX_POINTS


@pytest.mark.parametrize(
    ("sweep", "path", "message"),
    [
        ({}, "sweep", "exactly one of grid, zip, scenarios, not none"),
        ({"grid": {RATE: [1]}, "zip": {RATE: [1]}}, "sweep", "not grid and zip"),
        ({"gird": {RATE: [1]}}, "sweep.gird", "allowed are grid, zip, scenarios, coolDownSeconds"),
        ({"grid": []}, "sweep.grid", "an object of path"),
        ({"grid": {}}, "sweep.grid", "an object of path"),
        ({"grid": {RATE: 4}}, f"sweep.grid.{RATE}", "a list of at least one value"),
        ({"grid": {RATE: []}}, f"sweep.grid.{RATE}", "a list of at least one value"),
        ({"zip": {RATE: [1, 2], ISL: [1]}}, f"sweep.zip.{ISL}", f"has 1 values, {RATE} has 2"),
        ({"grid": {RATE: [*range(501)]}}, "sweep.grid", "has 501 points; at most 500"),
        ({"grid": {RATE: [*range(9999)], ISL: [*range(9999)]}}, "sweep.grid", "99980001 points"),
        ({"grid": {RATE: [4, 8, 4]}}, "sweep.grid", "points 0 and 2 (rate=4) are the same spec"),
        ({"scenarios": []}, "sweep.scenarios", "a list of {name, set"),
        ({"scenarios": [{"name": "a"}]}, "sweep.scenarios[0]", "with name and set"),
        ({"scenarios": [{"name": "", "set": {}}]}, "sweep.scenarios[0].name", "1 to 63"),
        ({"scenarios": [{"name": "a", "set": []}]}, "sweep.scenarios[0].set", "path: value"),
        (
            {"scenarios": [{"name": "a", "set": {}}, {"name": "a", "set": {RATE: 1}}]},
            "sweep.scenarios[1].name",
            "taken",
        ),
        (
            {"scenarios": [{"name": "a", "set": {}}, {"name": "b", "set": {RATE: 12}}]},
            "sweep.scenarios",
            "points 0 and 1 (b) are the same spec",
        ),
        (
            {"scenarios": [{"name": "a", "set": {"goals": []}}]},
            "sweep.scenarios[0].set.goals",
            "may not be swept",
        ),
    ],
)
def test_a_malformed_sweep_names_the_field_and_what_is_allowed(
    sweep: dict[str, Any], path: str, message: str
) -> None:
    error = refusal(**sweep)

    assert error.path == path
    assert message in error.message
    assert str(error) == f"{path}: {error.message}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("trials.count", "allowed are fields of endpoint, dataset, phases, cost"),
        ("workers.replicas", "may not be swept"),
        ("suspend", "may not be swept"),
        ("sweep.grid", "may not be swept"),
        ("datset.prompts.isl", "did you mean dataset?"),
        ("endpoint.service.name", "the run's target"),
        ("endpoint.url", "the run's target"),
        ("endpoint", "write endpoint.<field>"),
        ("phases", "write phases.<name>.<field>"),
        ("phases.profiling", "write phases.<name>.<field>"),
        ("phases.profiling.name", "by its name"),
        ("phases.profilng.rate", "there are warmup, profiling; did you mean profiling?"),
        ("dataset.prompts.isl.mean", "dataset.prompts.isl has no fields"),
        ("phases.profiling.rate.x", "phases.profiling.rate has no fields"),
        ("dataset..isl", "empty step"),
        ("", "empty step"),
    ],
)
def test_a_path_that_may_not_be_swept_is_refused(path: str, message: str) -> None:
    error = refusal(grid={path: [1, 2]})

    assert error.path == f"sweep.grid.{path}"
    assert message in error.message


def test_scenarios_that_differ_only_in_the_order_of_their_keys_are_the_same() -> None:
    pairs = [("endpoint.extraBody.top_p", 1), ("endpoint.extraBody.seed", 2)]

    error = refusal(
        scenarios=[
            {"name": "a", "set": dict(pairs)},
            {"name": "b", "set": dict(reversed(pairs))},
        ]
    )

    assert "points 0 and 1 (b) are the same spec" in error.message


def test_two_paths_of_which_one_contains_the_other_are_refused() -> None:
    error = refusal(grid={f"{ISL}.mean": [1], ISL: [{"mean": 2, "stddev": 1}]})

    assert error.path == f"sweep.grid.{ISL}.mean"
    assert f"lies inside {ISL}" in error.message


def test_a_sweep_that_is_no_object_is_refused() -> None:
    with pytest.raises(SweepError, match="sweep: give an object"):
        expand({**SPEC, "sweep": [1]})
