"""Every invalid manifest is refused in a sentence that helps."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.invalid_manifests import DELETE, INVALID, UNBUILT, Row, changed, valid_manifest
from tare.api import fields, unbuilt
from tare.api.problems import check_manifest, check_spec
from tare.api.schema import spec_schema

PYDANTIC_WORDS = ("Input should", "validation error", "pydantic", "type=", "NoneType")


def messages(document: Any) -> list[str]:
    return [str(problem) for problem in check_spec(document)[1]]


def test_a_valid_spec_has_no_problems() -> None:
    spec, problems = check_spec(valid_manifest()["spec"])

    assert problems == ()
    assert spec is not None


def test_every_unbuilt_field_has_a_row_in_the_table() -> None:
    """And so a feature that is built takes its rows out of both tables."""
    refused = [found for row in UNBUILT for found in unbuilt.find_unbuilt(row.manifest["spec"])]

    assert {found.advice for found in refused} == {row.advice for row in unbuilt.UNBUILT}


def test_a_misspelt_value_of_an_unbuilt_field_is_named_once() -> None:
    document = changed({"spec.dataset.type": "synthetc"})["spec"]

    (message,) = messages(document)
    assert message.startswith("spec.dataset.type: 'synthetc' is not allowed")
    assert message.endswith("use one of synthetic, file, trace; did you mean synthetic?")


def test_all_problems_are_told_at_once() -> None:
    document = changed(
        {"spec.endpoint.model": DELETE, "spec.trials.count": 0, "spec.phases[0].requests": "8"}
    )["spec"]

    assert [problem.path for problem in check_spec(document)[1]] == [
        "spec.endpoint.model",
        "spec.phases[0].requests",
        "spec.trials.count",
    ]


@pytest.mark.parametrize("row", INVALID, ids=lambda row: row.name)
def test_no_message_repeats_what_may_be_secret(row: Row) -> None:
    problems = (*check_manifest(row.manifest), *check_spec(row.manifest.get("spec"))[1])

    assert "hunter2" not in repr(problems)


def test_a_misspelt_field_does_not_show_its_value() -> None:
    document = changed({"spec.endpoint.apiKey": "hunter2"})["spec"]

    assert "hunter2" not in repr(check_spec(document)[1])
    assert "did you mean apiKey" in messages(document)[0]


def test_a_long_value_is_cut() -> None:
    document = changed({"spec.endpoint.type": "x" * 5000})["spec"]

    assert len(messages(document)[0]) < 250


@pytest.mark.parametrize("document", [None, [], "spec", 5])
def test_a_spec_that_is_no_object_is_refused(document: Any) -> None:
    assert "write an object" in messages(document)[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), dt.date(2026, 1, 1)])
def test_a_value_that_json_does_not_know_is_refused(value: Any) -> None:
    assert "JSON" in messages(changed({"spec.endpoint.extraBody": {"x": value}})["spec"])[0]


def test_every_pattern_of_the_api_is_explained_in_words() -> None:
    def patterns(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["pattern"]} if isinstance(node.get("pattern"), str) else set()
            return own.union(*(patterns(each) for each in node.values()))
        return set().union(*(patterns(each) for each in node)) if isinstance(node, list) else set()

    assert patterns(spec_schema()) <= fields.PATTERN_WORDS.keys()


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    below = [((*path, key), each) for key, each in items]
    return [place for place, _ in below] + [
        place
        for way, each in below
        if isinstance(each, dict | list)
        for place in paths_of(each, way)
    ]


JUNK = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(paths_of(valid_manifest()["spec"])), junk=JUNK)
def test_whatever_stands_in_a_field_the_answer_is_for_people(
    path: tuple[Any, ...], junk: Any
) -> None:
    document = valid_manifest()["spec"]
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = junk

    spec, problems = check_spec(document)

    assert (spec is None) == bool(problems)
    for problem in problems:
        assert problem.path.startswith("spec.")
        assert not any(word in problem.message.replace(str(junk), "") for word in PYDANTIC_WORDS)


@pytest.mark.parametrize(
    ("change", "path", "fragment"),
    [
        ({"apiVersion": "tare.dev/v1"}, "apiVersion", "use tare.dev/v1alpha1"),
        ({"kind": "Benchmark"}, "kind", "use BenchmarkRun"),
        ({"metadata": {}}, "metadata.name", "no name"),
        ({"metadata": None}, "metadata.name", "no name"),
    ],
)
def test_what_stands_around_the_spec_is_checked(
    change: dict[str, Any], path: str, fragment: str
) -> None:
    (problem,) = check_manifest(valid_manifest() | change)

    assert problem.path == path
    assert fragment in problem.message


def test_a_name_may_be_left_to_the_api_server() -> None:
    assert check_manifest(valid_manifest() | {"metadata": {"generateName": "qwen-"}}) == ()


def test_a_manifest_that_is_no_object_is_refused() -> None:
    assert "no object" in str(check_manifest(["x"])[0])
