"""Objects: create, read, update, list; what the server adds and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import collection

if TYPE_CHECKING:
    from support.clusters import Api


@pytest.fixture
def config_maps(namespace: str) -> str:
    return collection("", "configmaps", namespace)


def config_map(name: str, **metadata: Any) -> Any:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "1"}}


async def test_a_created_object_gets_its_system_fields(api: Api, config_maps: str) -> None:
    created = await api.must_create(config_maps, config_map("one", uid="mine"))

    metadata = created["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == config_maps.split("/")[4]
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")


async def test_a_taken_name_is_refused(api: Api, config_maps: str) -> None:
    await api.must_create(config_maps, config_map("one"))

    answer = await api.create(config_maps, config_map("one"))

    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "one" already exists'
    assert answer.body["details"] == {"name": "one", "kind": "configmaps"}


async def test_a_generated_name_ends_with_five_characters(api: Api, config_maps: str) -> None:
    created = await api.must_create(config_maps, {"metadata": {"generateName": "one-"}})

    assert created["metadata"]["name"].startswith("one-")
    assert len(created["metadata"]["name"]) == len("one-") + 5


async def test_an_object_with_a_resource_version_cannot_be_created(
    api: Api, config_maps: str
) -> None:
    answer = await api.create(config_maps, config_map("one", resourceVersion="5"))

    assert answer.status == 500
    assert answer.message == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"name": "one", "labels": {"a": "not a label"}}, "metadata.labels"),
        ({}, "metadata.name"),
    ],
)
async def test_faulty_metadata_is_refused_with_the_field(
    api: Api, config_maps: str, metadata: Any, field: str
) -> None:
    answer = await api.create(config_maps, {"metadata": metadata})

    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["details"]["causes"][0]["field"] == field


async def test_what_is_not_there_is_named_in_the_refusal(api: Api, config_maps: str) -> None:
    missing = await api.get(f"{config_maps}/none")
    unknown = await api.get("/apis/nobody.example.com/v1/things")
    homeless = await api.create(collection("", "configmaps", "nowhere"), config_map("one"))

    assert (missing.status, missing.message) == (404, 'configmaps "none" not found')
    assert unknown.status == 404
    assert (homeless.status, homeless.message) == (404, 'namespaces "nowhere" not found')


async def test_a_stale_update_is_a_conflict(api: Api, config_maps: str) -> None:
    first = await api.must_create(config_maps, config_map("one"))
    path = f"{config_maps}/one"
    await api.patch(path, {"data": {"a": "2"}})

    answer = await api.request("PUT", path, {**first, "data": {"a": "3"}})

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.message.endswith(
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )


async def test_a_write_that_changes_nothing_keeps_the_resource_version(
    api: Api, config_maps: str
) -> None:
    first = await api.must_create(config_maps, config_map("one"))

    answer = await api.patch(f"{config_maps}/one", {"data": {"a": "1"}})

    assert answer.body["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_dry_run_answers_like_a_write_and_stores_nothing(
    api: Api, config_maps: str
) -> None:
    created = await api.create(config_maps, config_map("one"), dryRun="All")
    await api.must_create(config_maps, config_map("two"))
    patched = await api.patch(f"{config_maps}/two", {"data": {"a": "2"}}, dryRun="All")
    deleted = await api.delete(f"{config_maps}/two", dryRun="All")

    assert created.status == 201
    assert patched.body["data"] == {"a": "2"}
    assert deleted.status == 200
    assert (await api.get(f"{config_maps}/one")).status == 404
    assert (await api.get(f"{config_maps}/two")).body["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=a", ["one"]),
        ("tier!=a", ["three", "two"]),
        ("tier in (a,b)", ["one", "two"]),
        ("tier notin (a)", ["three", "two"]),
        ("tier", ["one", "two"]),
        ("!tier", ["three"]),
        ("tier,colour=red", ["two"]),
    ],
)
async def test_a_list_follows_the_label_selector(
    api: Api, config_maps: str, selector: str, names: list[str]
) -> None:
    for name, labels in (
        ("one", {"tier": "a"}),
        ("two", {"tier": "b", "colour": "red"}),
        ("three", {"colour": "red"}),
    ):
        await api.must_create(config_maps, config_map(name, labels=labels))

    answer = await api.get(config_maps, labelSelector=f"{selector}")

    found = [item["metadata"]["name"] for item in answer.body["items"]]
    assert [name for name in found if name != "kube-root-ca.crt"] == names


async def test_a_list_follows_the_field_selector_and_refuses_an_unknown_field(
    api: Api, config_maps: str
) -> None:
    await api.must_create(config_maps, config_map("one"))
    await api.must_create(config_maps, config_map("two"))

    chosen = await api.get(config_maps, fieldSelector="metadata.name=two")
    refused = await api.get(config_maps, fieldSelector="data.a=1")

    assert [item["metadata"]["name"] for item in chosen.body["items"]] == ["two"]
    assert (refused.status, refused.body["reason"]) == (400, "BadRequest")
    assert "data.a" in refused.message


async def test_a_list_comes_in_pages(api: Api, config_maps: str) -> None:
    for number in range(5):
        await api.must_create(config_maps, config_map(f"page-{number}", labels={"a": "b"}))
    names, token = [], ""
    pages = 0
    while True:
        page = await api.get(
            config_maps, limit=2, labelSelector="a=b", **({"continue": token} if token else {})
        )
        names += [item["metadata"]["name"] for item in page.body["items"]]
        pages += 1
        token = page.body["metadata"].get("continue", "")
        if not token:
            break

    assert names == [f"page-{number}" for number in range(5)]
    assert pages == 3


async def test_a_list_of_a_built_in_kind_leaves_the_type_out_of_its_items(
    api: Api, config_maps: str
) -> None:
    await api.must_create(config_maps, config_map("one"))

    answer = await api.get(config_maps)

    assert answer.body["kind"] == "ConfigMapList"
    assert all("kind" not in item for item in answer.body["items"])


async def test_a_list_from_the_future_times_out(api: Api, config_maps: str) -> None:
    answer = await api.get(config_maps, resourceVersion="999999999")

    assert (answer.status, answer.body["reason"]) == (504, "Timeout")


async def test_string_data_of_a_secret_becomes_data(api: Api, namespace: str) -> None:
    secrets = collection("", "secrets", namespace)

    created = await api.must_create(
        secrets, {"metadata": {"name": "s"}, "stringData": {"token": "abc"}}
    )

    assert created["data"] == {"token": "YWJj"}
    assert "stringData" not in created
    assert created["type"] == "Opaque"


async def test_two_holders_of_a_lease_cannot_both_win(api: Api, namespace: str) -> None:
    leases = collection("coordination.k8s.io", "leases", namespace)
    lease = await api.must_create(leases, {"metadata": {"name": "l"}, "spec": {}})
    path = f"{leases}/l"

    def held_by(holder: str) -> Any:
        return {**lease, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}

    first = await api.request("PUT", path, held_by("a"))
    second = await api.request("PUT", path, held_by("b"))

    assert (first.status, second.status) == (200, 409)
    assert (await api.get(path)).body["spec"]["holderIdentity"] == "a"


async def test_events_are_found_by_the_object_they_are_about(api: Api, namespace: str) -> None:
    events = collection("", "events", namespace)
    for number, name in enumerate(("a", "b")):
        involved = {"kind": "Thing", "name": name, "namespace": namespace, "uid": f"u{number}"}
        await api.must_create(
            events,
            {
                "metadata": {"generateName": f"{name}."},
                "involvedObject": involved,
                "reason": "Tried",
                "message": "m",
                "type": "Normal",
            },
        )

    found = await api.get(events, fieldSelector="involvedObject.name=b,reason=Tried")

    assert [item["involvedObject"]["uid"] for item in found.body["items"]] == ["u1"]


async def test_an_access_review_is_answered_and_not_stored(api: Api, namespace: str) -> None:
    attributes = {"verb": "list", "resource": "pods", "namespace": namespace}

    answer = await api.create(
        collection("authorization.k8s.io", "selfsubjectaccessreviews", ""),
        {"spec": {"resourceAttributes": attributes}},
    )

    assert answer.status == 201
    assert answer.body["status"]["allowed"] is True


async def test_a_wrong_type_in_a_built_in_kind_is_a_bad_request(api: Api, namespace: str) -> None:
    answer = await api.create(
        collection("batch", "jobs", namespace),
        {"metadata": {"name": "j"}, "spec": {"parallelism": "two"}},
    )

    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.message.startswith(
        'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal string into Go '
        "struct field"
    )
