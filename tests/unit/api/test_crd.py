"""The CRD: generated, structural, bounded, and frozen where a run must not change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.cel_rules import holds
from support.invalid_manifests import changed, valid_manifest
from tare.api.crd import THAWED, build_crd
from tare.api.schema import PRESERVE, find, spec_schema
from tare.api.status import BenchmarkRunStatus
from tare.cli.crd import render

if TYPE_CHECKING:
    from collections.abc import Iterator

CRD_FILE = Path(__file__).parents[3] / "crds" / "benchmarkruns.tare.dev.yaml"
VERSION = build_crd()["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]
RULES = "x-kubernetes-validations"
STARTED = {"status": {"startTime": "2026-11-30T12:00:00Z"}}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], path + mark)


NODES = [(path, node) for path, node in nodes(ROOT) if path not in ("", ".metadata")]


def test_the_committed_file_is_what_the_models_say() -> None:
    assert CRD_FILE.read_text() == render(), "run `make generate`"


def test_the_file_is_plain_yaml_without_anchors() -> None:
    assert yaml.safe_load(render()) == build_crd()
    assert "&id" not in render()


@pytest.mark.parametrize("key", ["$ref", "$defs", "anyOf", "title", "default", "const", "nullable"])
def test_nothing_is_left_that_a_structural_schema_forbids(key: str) -> None:
    assert [path for path, node in NODES if key in node] == []


def test_every_node_has_a_type_or_says_that_it_has_none() -> None:
    untyped = ("x-kubernetes-int-or-string", PRESERVE)

    assert [
        p for p, node in NODES if "type" not in node and not any(u in node for u in untyped)
    ] == []


def test_every_field_is_described() -> None:
    own = [(path, node) for path, node in NODES if path.startswith((".spec", ".status"))]

    assert [
        p for p, node in own if not p.endswith(("[]", "{}")) and "description" not in node
    ] == []


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("string", ("maxLength", "enum")),
        ("array", ("maxItems",)),
        ("object", ("properties", "maxProperties")),
    ],
)
def test_every_text_list_and_map_is_bounded(kind: str, bounds: tuple[str, ...]) -> None:
    """Without bounds the API server's estimate of CEL costs refuses the CRD."""
    loose = [
        path
        for path, node in NODES
        if node.get("type") == kind and not any(bound in node for bound in bounds)
    ]

    assert set(loose) <= {".apiVersion", ".kind", ".status.progress.cells"} | FREE_FORM_ITEMS


FREE_FORM_ITEMS = {".spec.workers.tolerations[]", ".spec.workers.topologySpreadConstraints[]"}
"""Pod fields that are handed on unread; their lists are bounded."""


@pytest.mark.parametrize("name", ["resetKvCache", "serverProfiler"])
def test_a_union_takes_booleans_and_objects_and_no_text_number_or_list(name: str) -> None:
    node = spec_schema()["properties"]["endpoint"]["properties"][name]

    assert "type" not in node
    assert node[PRESERVE] is True
    assert node["properties"]
    for low, high in (("minLength", "maxLength"), ("minimum", "maximum"), ("minItems", "maxItems")):
        assert node[low] > node[high]


def test_people_see_what_matters_in_a_list_of_runs() -> None:
    columns = VERSION["additionalPrinterColumns"]

    assert [c["name"] for c in columns if "priority" not in c] == [
        "Phase",
        "Cells",
        "Model",
        "Best",
        "Goals",
        "Age",
    ]
    assert [c["name"] for c in columns if c.get("priority")] == ["Reason", "Started", "Target"]


@pytest.mark.parametrize("column", VERSION["additionalPrinterColumns"], ids=lambda c: c["name"])
def test_a_column_shows_a_field_that_exists(column: dict[str, Any]) -> None:
    steps = tuple(column["jsonPath"].removeprefix(".").split("."))

    assert steps[0] == "metadata" or find(ROOT, steps) is not None


def test_only_the_status_subresource_writes_status() -> None:
    assert VERSION["subresources"] == {"status": {}}


def freeze_holds(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Messages of the rules at the root that refuse the change."""
    return [
        rule["message"]
        for rule in ROOT[RULES]
        if not holds(rule["rule"], self=new | STARTED, oldSelf=old)
    ]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec.endpoint.model", "other", "endpoint"),
        ("spec.endpoint.resetKvCache", False, "endpoint"),
        ("spec.sweep.grid", {"dataset.seed": [1]}, "sweep"),
        ("spec.trials", {"count": 3}, "trials"),
        ("spec.baseline", {"run": "new"}, "baseline"),
    ],
)
def test_a_run_that_has_started_keeps_its_spec(path: str, value: Any, field: str) -> None:
    (message,) = freeze_holds(valid_manifest() | STARTED, changed({path: value}))

    assert message.startswith(f"spec.{field} is frozen")
    assert all(name in message for name in THAWED)


def test_a_field_cannot_vanish_from_a_run_that_has_started() -> None:
    new = valid_manifest()
    del new["spec"]["sweep"]

    (message,) = freeze_holds(valid_manifest() | STARTED, new)

    assert message.startswith("spec.sweep is frozen")


@pytest.mark.parametrize("name", THAWED)
def test_what_steers_a_run_may_change_at_any_time(name: str) -> None:
    value = True if name in ("suspend", "cancel") else 60

    assert freeze_holds(valid_manifest() | STARTED, changed({f"spec.{name}": value})) == []


def test_a_run_that_waits_may_still_be_changed() -> None:
    assert freeze_holds(valid_manifest(), changed({"spec.endpoint.model": "other"})) == []


def test_every_field_of_the_spec_is_either_frozen_or_thawed() -> None:
    frozen = {rule["fieldPath"].removeprefix(".spec.") for rule in ROOT[RULES]}

    assert frozen | set(THAWED) == set(spec_schema()["properties"])
    assert frozen.isdisjoint(THAWED)


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({}, {"cancel": True}, True),
        ({"cancel": False}, {"cancel": True}, True),
        ({"cancel": True}, {"cancel": True}, True),
        ({"cancel": True}, {"cancel": False}, False),
        ({"cancel": True}, {}, False),
        ({"cancel": False}, {}, True),
    ],
)
def test_a_cancellation_cannot_be_taken_back(
    old: dict[str, bool], new: dict[str, bool], *, allowed: bool
) -> None:
    (rule,) = (rule for rule in spec_schema()[RULES] if rule.get("fieldPath") == ".cancel")

    assert holds(rule["rule"], self=new, oldSelf=old) is allowed


def test_every_field_that_the_status_model_writes_is_in_the_schema() -> None:
    """What is missing there is pruned without a word."""
    written = set(BenchmarkRunStatus.model_json_schema(by_alias=True)["properties"])

    assert written == set(ROOT["properties"]["status"]["properties"])
