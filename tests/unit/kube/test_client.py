"""The client against a server that answers with Status documents recorded from Kubernetes 1.34."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes.aio.config import incluster_config

from support.kube_api import kube_api, write_kubeconfig
from support.scripted_http import Reply, json_reply, scripted
from tare.kube import client
from tare.kube.client import ApiCluster
from tare.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unavailable
from tare.kube.port import EVENT, JOB, POD, RUN, SERVICE

if TYPE_CHECKING:
    from pathlib import Path

JOBS = "/apis/batch/v1/namespaces/bench/jobs"
PODS = "/api/v1/namespaces/bench/pods"
NOT_FOUND = json_reply(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": 'jobs.batch "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "group": "batch", "kind": "jobs"},
        "code": 404,
    },
    404,
)


async def test_a_read_returns_the_document_as_the_server_sent_it(tmp_path: Path) -> None:
    run = {"kind": "BenchmarkRun", "spec": {"unknownToTheClient": {"deep": [1, None]}}}
    async with kube_api(tmp_path) as (server, cluster):
        path = "/apis/tare.dev/v1alpha1/namespaces/bench/benchmarkruns/a.b"
        server.on(path, json_reply(run))
        assert await cluster.get(RUN, "bench", "a.b") == run
        (request,) = server.requests
        assert request.headers["Authorization"] == "Bearer t0k3n"
        assert request.headers["Accept"] == "application/json"


async def test_core_resources_live_under_api_and_not_under_apis(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        server.on("/api/v1/namespaces/bench/services/qwen", json_reply({"kind": "Service"}))
        assert await cluster.get(SERVICE, "bench", "qwen") == {"kind": "Service"}


async def test_a_list_selects_by_label_and_reads_every_page(tmp_path: Path) -> None:
    pages = (
        {"metadata": {"continue": "next/+="}, "items": [{"n": 1}]},
        {"metadata": {}, "items": [{"n": 2}]},
    )
    async with kube_api(tmp_path) as (server, cluster):
        server.on(PODS, *(json_reply(page) for page in pages))
        found = await cluster.list(POD, "bench", labels={"tare.dev/run-uid": "u1", "app": "q"})
        assert found == [{"n": 1}, {"n": 2}]
        first, second = server.requests
        assert "labelSelector=tare.dev/run-uid%3Du1,app%3Dq" in first.path
        assert "limit=500" in first.path
        assert "continue=next/%2B%3D" in second.path


async def test_a_list_whose_snapshot_is_gone_half_way_starts_again_in_one_piece(
    tmp_path: Path,
) -> None:
    expired = json_reply({"kind": "Status", "reason": "Expired", "message": "too old"}, 410)
    async with kube_api(tmp_path) as (server, cluster):
        server.on(
            PODS,
            json_reply({"metadata": {"continue": "x"}, "items": [{"n": 1}]}),
            expired,
            json_reply({"metadata": {}, "items": [{"n": 1}, {"n": 2}]}),
        )
        assert await cluster.list(POD, "bench") == [{"n": 1}, {"n": 2}]
        assert "continue" not in server.requests[-1].path
        assert "limit=0" in server.requests[-1].path


async def test_a_list_without_items_is_empty(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        server.on(PODS, json_reply({"metadata": None, "items": None}))
        assert await cluster.list(POD, "bench") == []


async def test_a_patch_is_a_merge_patch_and_may_name_the_status(tmp_path: Path) -> None:
    patch = {"metadata": {"resourceVersion": "7"}, "status": {"phase": None}}
    async with kube_api(tmp_path) as (server, cluster):
        path = "/apis/tare.dev/v1alpha1/namespaces/bench/benchmarkruns/a/status"
        server.on(path, json_reply({}))
        await cluster.patch(RUN, "bench", "a", patch, subresource="status")
        (request,) = server.requests
        assert request.method == "PATCH"
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        assert request.json() == patch


async def test_a_create_posts_the_document(tmp_path: Path) -> None:
    event = {"kind": "Event", "metadata": {"generateName": "a."}, "count": 1, "empty": {}}
    async with kube_api(tmp_path) as (server, cluster):
        server.on("/api/v1/namespaces/bench/events", json_reply(event, 201))
        assert await cluster.create(EVENT, "bench", event) == event
        assert server.requests[0].json() == event


async def test_a_create_tells_a_taken_name_from_a_conflict(tmp_path: Path) -> None:
    taken = {
        "kind": "Status",
        "reason": "AlreadyExists",
        "message": 'jobs.batch "a" already exists',
    }
    stale = {"kind": "Status", "reason": "Conflict", "message": "the object has been modified"}
    async with kube_api(tmp_path) as (server, cluster):
        server.on(JOBS, json_reply(taken, 409), json_reply(stale, 409))
        with pytest.raises(AlreadyExists, match=r'^jobs\.batch "a" already exists$'):
            await cluster.create(JOB, "bench", {})
        with pytest.raises(Conflict):
            await cluster.create(JOB, "bench", {})


async def test_a_delete_names_the_uid_and_how_dependents_go(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{JOBS}/a", json_reply({"kind": "Status", "status": "Success"}))
        await cluster.delete(JOB, "bench", "a", uid="u1", foreground=True)
        await cluster.delete(JOB, "bench", "a")
        foreground, background = (request.json() for request in server.requests)
        assert foreground["preconditions"] == {"uid": "u1"}
        assert foreground["propagationPolicy"] == "Foreground"
        assert "preconditions" not in background
        assert background["propagationPolicy"] == "Background"


@pytest.mark.parametrize(
    "message",
    [
        "Precondition failed: UID in precondition: u1, UID in object meta: u2",
        "the UID in the precondition (u1) does not match the UID in record (u2)",
    ],
)
async def test_deleting_an_object_that_was_created_anew_is_done(
    tmp_path: Path, message: str
) -> None:
    refusal = json_reply({"kind": "Status", "reason": "Conflict", "message": message}, 409)
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{JOBS}/a", refusal)
        await cluster.delete(JOB, "bench", "a", uid="u1")
        with pytest.raises(Conflict):
            await cluster.delete(JOB, "bench", "a")


async def test_deleting_an_object_that_is_gone_is_done(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{JOBS}/a", NOT_FOUND)
        await cluster.delete(JOB, "bench", "a")
        with pytest.raises(NotFound, match=r'^jobs\.batch "a" not found$'):
            await cluster.get(JOB, "bench", "a")


async def test_a_server_that_is_down_is_unavailable(tmp_path: Path) -> None:
    async with scripted() as server:
        config = write_kubeconfig(tmp_path / "config", server.origin)
    async with ApiCluster.connect(config) as cluster:
        with pytest.raises(Unavailable, match="GET /api/v1/namespaces/bench/pods/p"):
            await cluster.get(POD, "bench", "p")


async def test_a_server_that_never_answers_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "REQUEST_TIMEOUT", 0.05)
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{PODS}/p", Reply(silent=True))
        with pytest.raises(Unavailable, match=r"did not answer within 0\.05 s"):
            await cluster.get(POD, "bench", "p")


async def test_an_answer_that_is_no_json_is_unavailable(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{PODS}/p", Reply(body=b"<html>a proxy</html>"))
        with pytest.raises(Unavailable, match="no JSON"):
            await cluster.get(POD, "bench", "p")


async def test_the_environment_names_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted() as server:
        server.on(f"{PODS}/p", json_reply({"kind": "Pod"}))
        config = write_kubeconfig(tmp_path / "config", server.origin)
        monkeypatch.setenv("KUBECONFIG", str(config))
        async with ApiCluster.connect() as cluster:
            assert await cluster.get(POD, "bench", "p") == {"kind": "Pod"}


@pytest.mark.parametrize("content", [None, "", "{}", "a: [", "[]"])
async def test_a_configuration_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(KubeError, match="no usable Kubernetes configuration"):
        async with ApiCluster.connect(path):
            pass


async def test_a_pod_without_a_configuration_uses_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    with pytest.raises(KubeError, match="Service token file does not exist"):
        async with ApiCluster.connect():
            pass


async def test_the_environments_proxy_is_used_for_the_api_server_as_kubectl_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted() as proxy:
        proxy.on(f"{PODS}/p", json_reply({"kind": "Pod"}))
        monkeypatch.setenv("http_proxy", proxy.origin)
        config = write_kubeconfig(tmp_path / "config", "http://api.example:6443")
        async with ApiCluster.connect(config) as cluster:
            assert await cluster.get(POD, "bench", "p") == {"kind": "Pod"}
        (request,) = proxy.requests
        assert request.headers["Host"] == "api.example:6443"


async def test_an_api_server_that_needs_no_proxy_is_asked_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{PODS}/p", json_reply({"kind": "Pod"}))
        assert await cluster.get(POD, "bench", "p") == {"kind": "Pod"}


async def test_the_users_netrc_is_no_business_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else")
    monkeypatch.setenv("NETRC", str(netrc))
    async with kube_api(tmp_path) as (server, cluster):
        server.on(f"{PODS}/p", json_reply({"kind": "Pod"}))
        assert await cluster.get(POD, "bench", "p") == {"kind": "Pod"}
        assert server.requests[0].headers["Authorization"] == "Bearer t0k3n"


async def test_an_empty_namespace_lists_all_of_them(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        server.on("/apis/tare.dev/v1alpha1/benchmarkruns", json_reply({"items": [{"n": 1}]}))
        assert await cluster.list(RUN, "") == [{"n": 1}]
