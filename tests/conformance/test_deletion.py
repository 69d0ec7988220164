"""Deletion: finalizers, preconditions, propagation, namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import collection, eventually

if TYPE_CHECKING:
    from support.clusters import Api

FINALIZER = "conformance.tare.dev/hold"


@pytest.fixture
def config_maps(namespace: str) -> str:
    return collection("", "configmaps", namespace)


async def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(
    api: Api, probes: str
) -> None:
    body = {
        "apiVersion": "conformance.tare.dev/v1",
        "kind": "Probe",
        "metadata": {"name": "p", "finalizers": [FINALIZER]},
        "spec": {"size": 1},
    }
    created = await api.must_create(probes, body)
    path = f"{probes}/p"

    deleted = await api.delete(path)
    added = await api.patch(path, {"metadata": {"finalizers": [FINALIZER, "a.dev/late"]}})
    released = await api.patch(path, {"metadata": {"finalizers": []}})

    assert (deleted.status, deleted.body["kind"]) == (200, "Probe")
    assert deleted.body["metadata"]["deletionTimestamp"]
    assert deleted.body["metadata"]["generation"] == created["metadata"]["generation"] + 1
    assert added.status == 422
    assert "no new finalizers can be added if the object is being deleted" in added.message
    assert released.status == 200
    assert (await api.get(path)).status == 404


async def test_a_deleted_object_is_answered_with_a_status(api: Api, config_maps: str) -> None:
    created = await api.must_create(config_maps, {"metadata": {"name": "a"}})

    answer = await api.delete(f"{config_maps}/a")

    assert (answer.status, answer.body["kind"], answer.body["status"]) == (
        200,
        "Status",
        "Success",
    )
    assert answer.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": created["metadata"]["uid"],
    }


async def test_a_delete_with_anothers_uid_is_a_conflict(api: Api, config_maps: str) -> None:
    await api.must_create(config_maps, {"metadata": {"name": "a"}})

    answer = await api.delete(f"{config_maps}/a", {"preconditions": {"uid": "other"}})

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "the UID in the precondition (other) does not match" in answer.message


async def test_a_collection_is_deleted_by_its_selector(api: Api, config_maps: str) -> None:
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        await api.must_create(config_maps, {"metadata": {"name": name, "labels": {"l": label}}})

    answer = await api.delete(config_maps, labelSelector="l=x")

    assert (answer.status, answer.body["kind"]) == (200, "ConfigMapList")
    left = await api.get(config_maps, labelSelector="l")
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["c"]


async def test_an_unknown_propagation_policy_is_refused(api: Api, config_maps: str) -> None:
    await api.must_create(config_maps, {"metadata": {"name": "a"}})

    answer = await api.delete(f"{config_maps}/a", propagationPolicy="Sideways")

    assert answer.status == 422
    assert 'propagationPolicy: Unsupported value: "Sideways"' in answer.message


async def family(api: Api, config_maps: str, *, finalizer: bool = False) -> Any:
    """Create an owner and a dependent that blocks it."""
    owner = await api.must_create(config_maps, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: dict[str, Any] = {"name": "child", "ownerReferences": [reference]}
    if finalizer:
        metadata["finalizers"] = [FINALIZER]
    await api.must_create(config_maps, {"metadata": metadata})
    return owner


async def test_dependents_go_after_their_owner_in_the_background(
    api: Api, config_maps: str
) -> None:
    await family(api, config_maps)

    await api.delete(f"{config_maps}/owner", propagationPolicy="Background")

    assert (await api.get(f"{config_maps}/owner")).status == 404
    await api.until_gone(f"{config_maps}/child")


async def test_in_the_foreground_the_owner_waits_for_its_dependents(
    api: Api, config_maps: str
) -> None:
    await family(api, config_maps, finalizer=True)

    await api.delete(f"{config_maps}/owner", propagationPolicy="Foreground")

    await api.until(f"{config_maps}/child", lambda child: "deletionTimestamp" in child["metadata"])
    owner = (await api.get(f"{config_maps}/owner")).body
    assert owner["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.patch(f"{config_maps}/child", {"metadata": {"finalizers": None}})
    await api.until_gone(f"{config_maps}/owner")


async def test_orphans_lose_the_reference_and_stay(api: Api, config_maps: str) -> None:
    await family(api, config_maps)

    await api.delete(f"{config_maps}/owner", propagationPolicy="Orphan")

    await api.until_gone(f"{config_maps}/owner")
    child = (await api.get(f"{config_maps}/child")).body
    assert "ownerReferences" not in child["metadata"]


async def test_an_object_whose_owner_never_was_is_collected(api: Api, config_maps: str) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "nobody",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    metadata = {"name": "child", "ownerReferences": [reference]}
    await api.must_create(config_maps, {"metadata": metadata})

    await api.until_gone(f"{config_maps}/child")


async def test_a_namespace_is_emptied_before_it_goes(api: Api) -> None:
    async with api.namespace() as namespace:
        config_maps = collection("", "configmaps", namespace)
        path = f"/api/v1/namespaces/{namespace}"
        made = (await api.get(path)).body
        held = {"metadata": {"name": "held", "finalizers": [FINALIZER]}}
        await api.must_create(config_maps, held)
        await api.must_create(config_maps, {"metadata": {"name": "plain"}})

        deleted = await api.delete(path)
        await api.until_gone(f"{config_maps}/plain")
        refused = await api.create(config_maps, {"metadata": {"name": "late"}})
        await api.patch(f"{config_maps}/held", {"metadata": {"finalizers": None}})
        await api.until_gone(path)

    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
    assert (made["spec"]["finalizers"], made["status"]["phase"]) == (["kubernetes"], "Active")
    assert deleted.body["status"]["phase"] == "Terminating"
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in refused.message


async def test_a_new_namespace_has_a_default_service_account(api: Api, namespace: str) -> None:
    accounts = collection("", "serviceaccounts", namespace)

    async def there() -> bool:
        return (await api.get(f"{accounts}/default")).status == 200

    await eventually(there)
