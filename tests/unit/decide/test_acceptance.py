"""Acceptance: one answer about the manifest, its cells and its target."""

from __future__ import annotations

from typing import Any

import pytest

from support.invalid_manifests import (
    ACCEPTED,
    DELETE,
    INVALID,
    Row,
    Variation,
    changed,
    valid_manifest,
)
from tare.decide.acceptance import MAX_PROBLEMS, Accepted, Refused, accept, warnings_of
from tare.net.allowlist import AllowList

NOTHING = AllowList()


def accepted(manifest: dict[str, Any], allow_targets: AllowList = NOTHING) -> Accepted:
    outcome = accept(manifest, allow_targets=allow_targets)
    assert isinstance(outcome, Accepted), outcome
    return outcome


def refused(manifest: dict[str, Any], allow_targets: AllowList = NOTHING) -> Refused:
    outcome = accept(manifest, allow_targets=allow_targets)
    assert isinstance(outcome, Refused)
    return outcome


@pytest.mark.parametrize("row", INVALID, ids=lambda row: row.name)
def test_an_invalid_manifest_is_refused_with_path_value_and_advice(row: Row) -> None:
    problems = refused(row.manifest).problems

    found = [problem.message for problem in problems if problem.path == row.path]
    assert any(all(part in message for part in row.fragments) for message in found), problems


@pytest.mark.parametrize("variation", ACCEPTED, ids=lambda variation: variation.name)
def test_an_odd_but_valid_manifest_is_accepted(variation: Variation) -> None:
    assert accepted(variation.manifest).cells


def test_every_point_of_the_sweep_becomes_a_cell_with_its_own_spec() -> None:
    cells = accepted(valid_manifest()).cells

    assert [cell.index for cell in cells] == [0, 1]
    assert [dict(cell.overrides) for cell in cells] == [
        {"phases.profiling.rate": 2},
        {"phases.profiling.rate": 4},
    ]
    assert [cell.spec.phases[1].rate for cell in cells] == [2, 4]


def test_a_run_without_a_sweep_has_one_cell() -> None:
    outcome = accepted(changed({"spec.sweep": DELETE}))

    assert [cell.spec for cell in outcome.cells] == [outcome.spec]


def test_a_mistake_in_a_sweep_is_told_once_and_not_for_every_cell() -> None:
    grid = {"phases.profiling.rate": [-4], "dataset.seed": list(range(100))}

    (problem,) = refused(changed({"spec.sweep": {"grid": grid}})).problems

    assert problem.path == "spec.sweep.grid.phases.profiling.rate"


def test_axes_that_do_not_go_together_name_the_cells() -> None:
    scenarios = [
        {"name": "closed", "set": {"phases.profiling.type": "concurrency"}},
        {"name": "open", "set": {"phases.profiling.rate": 5}},
    ]

    problems = refused(changed({"spec.sweep": {"scenarios": scenarios}})).problems

    assert {problem.path for problem in problems} == {"spec.sweep"}
    assert all(problem.message.startswith("cell 0 (closed)") for problem in problems)


def test_a_scenario_is_named_by_its_place_in_the_list() -> None:
    scenarios = [
        {"name": "good", "set": {"dataset.prompts.isl": 64}},
        {"name": "bad", "set": {"dataset.prompts.isl": {"min": 9, "max": 5}}},
    ]

    (problem,) = refused(changed({"spec.sweep": {"scenarios": scenarios}})).problems

    assert problem.path == "spec.sweep.scenarios[1].set.dataset.prompts.isl.min"


def test_a_marker_without_a_place_of_its_own_is_told_with_its_cells() -> None:
    targets = ["none", "system_prefix", "first_turn_prefix", "system_suffix"]
    grid = {"dataset.prompts.cacheBust.target": targets, "phases.profiling.rate": [2, 4, 8]}

    cells = accepted(changed({"spec.sweep": {"grid": grid}})).cells

    path = "spec.dataset.prompts.cacheBust.target"
    text = (
        f"{path}: prompts have no system message, so the marker of {{}} goes to the first user turn"
    )
    assert warnings_of(cells) == (
        f"{text.format('system_prefix')} (cell 3, 4, 5)",
        f"{text.format('system_suffix')} (cell 9, 10, 11)",
    )


def test_a_warning_of_many_cells_names_some_of_them() -> None:
    bust = {"spec.dataset.prompts.cacheBust": {"target": "system_prefix"}}
    grid = {"dataset.seed": list(range(9))}

    (warning,) = warnings_of(accepted(changed({**bust, "spec.sweep": {"grid": grid}})).cells)

    assert warning.endswith("(cell 0, 1, 2, 3, 4 and 4 more)")


@pytest.mark.parametrize(
    ("bust", "more", "words"),
    [
        ({"target": "system_prefix"}, {}, []),
        ({"target": "first_turn_suffix"}, {}, ["from their first token"]),
        ({"target": "system_prefix"}, {"spec.endpoint.server": "generic"}, ["may ignore it"]),
        (
            {"target": "first_turn_prefix"},
            {"spec.dataset.prefixPrompts": {"userContextLength": 9}},
            ["from their first token"],
        ),
    ],
)
def test_a_salt_that_does_more_or_less_than_its_target_says_is_told(
    bust: dict[str, Any], more: dict[str, Any], words: list[str]
) -> None:
    change = {"spec.dataset.prompts.cacheBust": {**bust, "carrier": "salt"}, **more}

    found = warnings_of(accepted(changed({**change, "spec.sweep": DELETE})).cells)

    assert len(found) == len(words)
    assert all(word in warning for word, warning in zip(words, found, strict=True))


def test_a_list_of_problems_stays_readable() -> None:
    seeds = [{"name": f"s{seed}", "set": {"dataset.seed": -seed}} for seed in range(1, 200)]

    assert len(refused(changed({"spec.sweep": {"scenarios": seeds}})).problems) == MAX_PROBLEMS


def test_a_broken_manifest_is_not_expanded() -> None:
    """One wrong field would otherwise be repeated for every cell."""
    (problem,) = refused(changed({"spec.trials.count": 0})).problems

    assert problem.path == "spec.trials.count"


def is_accepted(manifest: dict[str, Any], allow_targets: str = "") -> bool:
    outcome = accept(manifest, allow_targets=AllowList.parse(allow_targets))
    return isinstance(outcome, Accepted)


def to_url(url: str) -> dict[str, Any]:
    return changed({"spec.endpoint.service": DELETE, "spec.endpoint.url": url})


def test_a_service_of_the_runs_namespace_needs_no_permission() -> None:
    assert is_accepted(valid_manifest(), allow_targets="")


def test_a_url_is_accepted_when_the_operator_allows_it() -> None:
    allowed = "http://*.example.com:8000"

    assert is_accepted(to_url("http://gpu.example.com:8000/v1"), allowed)
    assert not is_accepted(to_url("http://gpu.example.com:9000"), allowed)
    assert not is_accepted(to_url("http://gpu.example.org:8000"), allowed)


def test_each_of_several_urls_must_be_allowed() -> None:
    urls = ["http://a:8000", "http://b:8000"]
    manifest = changed({"spec.endpoint.service": DELETE, "spec.endpoint.urls": urls})

    (problem,) = refused(manifest, AllowList.parse("a")).problems

    assert problem.path == "spec.endpoint.urls[1]"


def test_a_service_of_another_namespace_is_accepted_when_the_operator_allows_it() -> None:
    manifest = changed({"spec.endpoint.service.namespace": "models"})

    assert is_accepted(manifest, allow_targets="qwen.models.svc")
    assert not is_accepted(manifest, allow_targets="*.staging.svc")


def test_a_manifest_without_a_namespace_means_the_default_one() -> None:
    manifest = changed({"metadata.namespace": DELETE, "spec.endpoint.service.namespace": "default"})

    assert is_accepted(manifest)


def test_an_object_as_the_api_server_stores_it_is_accepted() -> None:
    stored = {
        "uid": "5e0c",
        "generation": 2,
        "resourceVersion": "77",
        "managedFields": [],
        "finalizers": ["tare.dev/finalizer"],
    }
    manifest = valid_manifest()
    manifest["metadata"] |= stored
    manifest["status"] = {"phase": "Running"}

    assert is_accepted(manifest)


ENGINES = {"urls": ["http://10.0.0.1:8000", "http://10.9.9.9:8000"]}


@pytest.mark.parametrize("hook", ["resetKvCache", "serverProfiler"])
def test_urls_of_a_hooks_target_need_the_allow_list(hook: str) -> None:
    manifest = changed({f"spec.endpoint.{hook}": {"target": ENGINES}, "spec.sweep": DELETE})

    (problem,) = refused(manifest, AllowList.parse("10.0.0.0/24")).problems

    assert problem.path == f"spec.endpoint.{hook}.target.urls[1]"
    assert "not on the operator's allow-list" in problem.message
    assert accepted(manifest, AllowList.parse("10.0.0.0/8")).cells


def test_a_sweep_is_no_way_around_the_allow_list() -> None:
    grid = {"endpoint.resetKvCache": [True, {"target": ENGINES}]}

    found = refused(changed({"spec.sweep": {"grid": grid}})).problems

    assert {problem.path for problem in found} == {
        f"spec.sweep.grid.endpoint.resetKvCache.target.urls[{index}]" for index in (0, 1)
    }
