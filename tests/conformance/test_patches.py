"""Patches of all four types, and who owns a field after a server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import collection

if TYPE_CHECKING:
    from support.clusters import Api


def probe(**spec: Any) -> Any:
    return {
        "apiVersion": "conformance.tare.dev/v1",
        "kind": "Probe",
        "metadata": {"name": "p"},
        "spec": {"size": 1, **spec},
    }


@pytest.fixture
async def path(api: Api, probes: str) -> str:
    """A stored probe with a list, a map and two parts."""
    parts = [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}]
    await api.must_create(probes, probe(tags=["x"], labels={"k": "v"}, parts=parts))
    return f"{probes}/p"


async def test_a_merge_patch_deletes_by_null_and_replaces_lists(api: Api, path: str) -> None:
    patch = {"spec": {"labels": {"k": None, "n": "w"}, "parts": [{"name": "c"}]}}

    answer = await api.patch(path, patch)

    assert answer.body["spec"]["labels"] == {"n": "w"}
    assert answer.body["spec"]["parts"] == [{"name": "c", "weight": 1}]
    assert answer.body["spec"]["tags"] == ["x"]


async def test_a_merge_patch_with_a_stale_resource_version_is_a_conflict(
    api: Api, path: str
) -> None:
    version = (await api.get(path)).body["metadata"]["resourceVersion"]
    await api.patch(path, {"spec": {"size": 2}})

    answer = await api.patch(path, {"metadata": {"resourceVersion": version}, "spec": {"size": 3}})

    assert answer.status == 409
    assert (await api.get(path)).body["spec"]["size"] == 2


async def test_a_json_patch_is_applied_in_order(api: Api, path: str) -> None:
    operations = [
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec/size", "value": 7},
        {"op": "add", "path": "/spec/tags/-", "value": "y"},
        {"op": "remove", "path": "/spec/parts/0"},
    ]

    answer = await api.patch(path, operations, "json-patch+json")

    spec = answer.body["spec"]
    assert (spec["size"], spec["tags"], [part["name"] for part in spec["parts"]]) == (
        7,
        ["x", "y"],
        ["b"],
    )


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/size", "value": 9},
        {"op": "remove", "path": "/spec/nothing-here"},
    ],
)
async def test_a_json_patch_that_does_not_fit_is_unprocessable(
    api: Api, path: str, operation: Any
) -> None:
    answer = await api.patch(path, [operation], "json-patch+json")

    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.message == "the server rejected our request due to an error in our request"


async def test_a_strategic_merge_patch_merges_lists_by_their_key(api: Api, namespace: str) -> None:
    services = collection("", "services", namespace)
    ports = [{"name": "a", "port": 1001}, {"name": "b", "port": 1002}]
    await api.must_create(services, {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    patch = {
        "spec": {
            "ports": [
                {"port": 1001, "$patch": "delete"},
                {"port": 1002, "appProtocol": "http"},
                {"name": "c", "port": 1003},
            ]
        }
    }

    answer = await api.patch(f"{services}/s", patch, "strategic-merge-patch+json")

    found = {port["name"]: port.get("appProtocol") for port in answer.body["spec"]["ports"]}
    assert found == {"b": "http", "c": None}


async def test_a_custom_resource_refuses_a_strategic_merge_patch(api: Api, path: str) -> None:
    answer = await api.patch(path, {"spec": {"size": 2}}, "strategic-merge-patch+json")

    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_an_apply_creates_and_later_drops_what_it_leaves_out(api: Api, probes: str) -> None:
    path = f"{probes}/p"
    created = await api.apply(path, probe(colour="green", labels={"k": "v"}), "alice")

    changed = await api.apply(path, probe(labels={"n": "w"}), "alice")

    assert (created.status, changed.status) == (201, 200)
    assert changed.body["spec"]["labels"] == {"n": "w"}
    assert changed.body["spec"]["colour"] == "red"  # the default again
    managers = [entry["manager"] for entry in changed.body["metadata"]["managedFields"]]
    assert managers == ["alice"]


async def test_an_apply_of_another_managers_field_is_a_conflict_unless_forced(
    api: Api, probes: str
) -> None:
    path = f"{probes}/p"
    await api.apply(path, probe(size=1), "alice")

    refused = await api.apply(path, probe(size=2), "bob")
    agreed = await api.apply(path, probe(size=1), "carol")
    forced = await api.apply(path, probe(size=2), "bob", force="true")

    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "alice": .spec.size'
    assert agreed.status == 200
    assert forced.body["spec"]["size"] == 2


async def test_an_apply_keeps_the_list_items_of_others(api: Api, probes: str) -> None:
    path = f"{probes}/p"
    await api.apply(path, probe(parts=[{"name": "a"}]), "alice")
    await api.apply(path, probe(parts=[{"name": "b", "weight": 5}]), "bob")

    answer = await api.apply(path, probe(parts=[{"name": "c"}]), "alice")

    assert {part["name"] for part in answer.body["spec"]["parts"]} == {"b", "c"}


async def test_a_plain_write_takes_a_field_from_the_one_who_applied_it(
    api: Api, probes: str
) -> None:
    path = f"{probes}/p"
    await api.apply(path, probe(size=1), "alice")
    await api.patch(path, {"spec": {"size": 5}}, fieldManager="mallory")

    answer = await api.apply(path, probe(size=1), "alice")

    assert answer.status == 409
    assert 'conflict with "mallory"' in answer.message
    assert ".spec.size" in answer.message


async def test_an_apply_needs_a_field_manager(api: Api, probes: str) -> None:
    answer = await api.patch(f"{probes}/p", probe(), "apply-patch+yaml")

    assert answer.status == 422
    assert "fieldManager: Required value" in answer.message
