"""What the server says about itself: version, discovery, OpenAPI documents."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from support.clusters import eventually
from support.kubernetes_schemas import KINDS, cut

if TYPE_CHECKING:
    from support.clusters import Api, TestCluster

VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


def by_name(body: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in body["resources"]}


async def test_the_server_is_kubernetes_1_34(api: Api) -> None:
    answer = await api.get("/version")

    assert (answer.body["major"], answer.body["minor"]) == ("1", "34")
    assert answer.body["gitVersion"].startswith("v1.34.")


async def test_it_is_healthy(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await api.get(path)
        assert (answer.status, answer.body) == (200, "ok")


async def test_groups_and_resources_are_listed(api: Api, probes: str) -> None:
    groups = (await api.get("/apis")).body["groups"]
    group = (await api.get("/apis/conformance.tare.dev")).body
    core = by_name((await api.get("/api/v1")).body)
    custom = by_name((await api.get("/apis/conformance.tare.dev/v1")).body)

    assert probes.startswith("/apis/conformance.tare.dev/v1")
    assert {"batch", "discovery.k8s.io", "coordination.k8s.io", "conformance.tare.dev"} <= {
        entry["name"] for entry in groups
    }
    assert group["preferredVersion"]["groupVersion"] == "conformance.tare.dev/v1"
    assert core["pods"]["shortNames"] == ["po"]
    assert set(core["pods"]["verbs"]) == VERBS
    assert core["pods/log"]["verbs"] == ["get"]
    assert core["namespaces"]["namespaced"] is False
    assert custom["probes"]["kind"] == "Probe"
    assert custom["probes"]["singularName"] == "probe"
    assert custom["probes"]["shortNames"] == ["prb"]
    assert set(custom["probes"]["verbs"]) == VERBS
    assert set(custom["probes/status"]["verbs"]) == {"get", "patch", "update"}


async def openapi(api: Api, path: str) -> Any:
    """Read a document; the real server calls its JSON plain text."""
    body = (await api.get(path)).body
    return json.loads(body) if isinstance(body, str) else body


async def test_the_openapi_document_describes_a_custom_resource(api: Api, probes: str) -> None:
    assert probes.startswith("/apis/conformance.tare.dev/v1")
    group = {"group": "conformance.tare.dev", "kind": "Probe", "version": "v1"}
    found: list[Any] = []

    async def described() -> bool:
        index = (await openapi(api, "/openapi/v3"))["paths"]
        if "apis/conformance.tare.dev/v1" not in index:
            return False
        document = await openapi(api, "/openapi/v3/apis/conformance.tare.dev/v1")
        found[:] = [
            schema
            for schema in document["components"]["schemas"].values()
            if schema.get("x-kubernetes-group-version-kind") == [group]
        ]
        return bool(found)

    await eventually(described)
    size = found[0]["properties"]["spec"]["properties"]["size"]
    assert size == {"type": "integer", "minimum": 1, "maximum": 100, "description": "How large."}


async def test_our_built_in_schemas_are_the_servers(api: Api) -> None:
    documents = {path: await openapi(api, f"/openapi/v3/{path}") for path in KINDS}

    theirs = cut(documents)

    text = resources.files("tare.devcluster.apiserver").joinpath("kubernetes-v1.34.json")
    ours = json.loads(text.read_text())
    assert theirs.keys() == ours.keys()
    for name, schema in theirs.items():
        assert schema == ours[name], name


async def test_what_the_devcluster_leaves_out_says_so(api: Api, cluster: TestCluster) -> None:
    answer = await api.get("/apis/apps/v1/namespaces/default/deployments")

    if cluster.is_real:
        assert answer.status == 200
    else:
        assert (answer.status, answer.body["reason"]) == (501, "NotImplemented")
        assert "the devcluster does not implement deployments of apps/v1" in answer.message
