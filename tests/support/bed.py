"""A bed for integration tests: a cluster, the operator on it, simulated model servers.

The operator is a process of its own, as in a Deployment, so that tests can kill it. Tests see what
a user sees: objects through the API, and what the servers counted.
"""

from __future__ import annotations

import itertools
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from support.eventually import eventually
from support.operator_process import WORKER_IMAGE, OperatorProcess
from tare.kube.client import ApiCluster
from tare.kube.errors import AlreadyExists, KubeError, NotFound
from tare.kube.port import EVENT, JOB, POD, RUN, SERVICE, Document, Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

__all__ = [
    "QUICK",
    "SERVER_IMAGE",
    "WORKER_IMAGE",
    "Bed",
    "OperatorProcess",
    "Server",
    "condition",
    "eventually",
    "install_crd",
    "manifest",
    "secret",
    "told",
]

SERVER_IMAGE = "localhost/tare:dev"
NAMESPACE = Kind("", "v1", "namespaces")
CRDS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CRD = Path(__file__).parents[2] / "crds" / "benchmarkruns.tare.dev.yaml"
QUICK = ("--itl", "1ms", "--ttft-overhead", "1ms")
"""Options of a server whose answers take a few milliseconds."""
_PORT = 8000
_numbers = itertools.count()


def manifest(name: str = "run", **spec: Any) -> Document:
    """One cell, a warm-up and a profiling phase against Service `qwen`; None removes a field."""
    fields: dict[str, Any] = {
        "endpoint": {"service": {"name": "qwen", "port": _PORT}, "model": "m"},
        "dataset": {"prompts": {"isl": 64, "osl": 4}, "seed": 1},
        "phases": [
            {
                "name": "warmup",
                "kind": "warmup",
                "type": "concurrency",
                "concurrency": 2,
                "requests": 2,
            },
            {
                "name": "profiling",
                "kind": "profiling",
                "type": "concurrency",
                "concurrency": 4,
                "requests": 8,
            },
        ],
        "workers": {"replicas": 2, "startTimeoutSeconds": 60},
        **spec,
    }
    return {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def secret(name: str, **values: str) -> Document:
    """A Secret with these keys."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": values,
    }


@dataclass
class Server:
    """One simulated model server, as a pod."""

    pod: str
    url: str
    """Base URL of the pod itself."""

    async def counters(self) -> dict[str, Any]:
        """What the server says happened to it."""
        return dict(await _get(f"{self.url}/admin/counters"))

    async def requests(self) -> list[dict[str, Any]]:
        """The inference requests that the server remembers."""
        return list((await _get(f"{self.url}/admin/requests"))["requests"])

    async def under_load(self, requests: int = 20) -> None:
        """Wait until that many requests were accepted; the status tells them only now and then."""

        async def loaded() -> bool:
            return bool((await self.counters())["requests"] >= requests)

        await eventually(loaded, 30, lambda: f"{self.pod} got no load")

    async def faults(self, **faults: Any) -> None:
        """Let the server misbehave from now on."""
        await self.post("/admin/faults", faults)

    async def post(self, path: str, document: Any = None) -> None:
        """Send a control request of the test's own."""
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            await session.post(f"{self.url}{path}", json=document)


@dataclass
class Bed:
    """A cluster with an operator."""

    cluster: ApiCluster
    kubeconfig: Path
    operator: OperatorProcess
    namespaces: list[str] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path, operator: OperatorProcess) -> AsyncIterator[Bed]:
        """Connect; what the test leaves in its namespaces is deleted at the end."""
        async with ApiCluster.connect(kubeconfig) as cluster:
            bed = cls(cluster=cluster, kubeconfig=kubeconfig, operator=operator)
            if not operator.alive:
                operator.start()
            await operator.ready()
            try:
                yield bed
            finally:
                for name in bed.namespaces:
                    await cluster.delete(NAMESPACE, "", name)

    async def namespace(self) -> str:
        """Create a namespace of the test's own."""
        name = f"it-{os.getpid()}-{next(_numbers)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.cluster.create(NAMESPACE, "", body)
        self.namespaces.append(name)
        return name

    async def servers(
        self, namespace: str, *arguments: str, replicas: int = 2, name: str = "qwen"
    ) -> list[Server]:
        """Start simulated servers of model `m` behind Service `name`, and wait for them."""
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "selector": {"app": name},
                "ports": [{"name": "http", "port": _PORT, "targetPort": _PORT}],
            },
        }
        await self.cluster.create(SERVICE, namespace, service)
        pods = [f"{name}-{index}" for index in range(replicas)]
        for pod in pods:
            await self.cluster.create(POD, namespace, _server_pod(pod, name, arguments))
        return [await self._server(namespace, pod) for pod in pods]

    async def another_server(
        self, namespace: str, pod: str, *arguments: str, name: str = "qwen"
    ) -> Server:
        """Start one more server behind a Service that is there, and wait for it."""
        await self.cluster.create(POD, namespace, _server_pod(pod, name, arguments))
        return await self._server(namespace, pod)

    async def _server(self, namespace: str, pod: str) -> Server:
        async def ready() -> bool:
            status = (await self.cluster.get(POD, namespace, pod)).get("status") or {}
            return any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in status.get("conditions") or ()
            )

        await eventually(ready, 30, lambda: f"{pod} is not ready")
        document = await self.cluster.get(POD, namespace, pod)
        return Server(pod=pod, url=f"http://{document['status']['podIP']}:{_PORT}")

    async def submit(self, namespace: str, document: Document) -> Document:
        """Create a run."""
        return await self.cluster.create(RUN, namespace, document)

    async def run(self, namespace: str, name: str = "run") -> Document:
        """Read a run."""
        return await self.cluster.get(RUN, namespace, name)

    async def status(self, namespace: str, name: str = "run") -> dict[str, Any]:
        """Read a run's status; empty before the operator wrote one."""
        return dict((await self.run(namespace, name)).get("status") or {})

    async def finished(
        self, namespace: str, name: str = "run", *, seconds: float = 60
    ) -> dict[str, Any]:
        """Wait for the end of a run and return its status."""
        return await self.until(
            namespace, lambda status: condition(status, "Finished") == "True", name, seconds=seconds
        )

    async def until(
        self,
        namespace: str,
        holds: Callable[[Mapping[str, Any]], bool],
        name: str = "run",
        *,
        seconds: float = 30,
    ) -> dict[str, Any]:
        """Wait until something holds of a run's status, and return it."""
        seen: dict[str, Any] = {}

        async def reached() -> bool:
            seen.clear()
            seen.update(await self.status(namespace, name))
            return holds(seen)

        await eventually(
            reached, seconds, lambda: f"{seen}\n{self.operator.log.read_text()[-3000:]}"
        )
        return dict(seen)

    async def gone(self, kind: Kind, namespace: str, name: str, *, seconds: float = 30) -> None:
        """Wait until an object is gone."""

        async def missing() -> bool:
            try:
                await self.cluster.get(kind, namespace, name)
            except NotFound:
                return True
            return False

        await eventually(missing, seconds, lambda: f"{kind.plural} {name} is still there")

    async def children(self, namespace: str) -> list[Document]:
        """Jobs in a namespace."""
        return await self.cluster.list(JOB, namespace)

    async def events(self, namespace: str, name: str = "run") -> list[Document]:
        """Events about a run, oldest first."""
        found = await self.cluster.list(EVENT, namespace)
        return [e for e in found if e["involvedObject"].get("name") == name]

    async def metrics(self) -> str:
        """The operator's Prometheus exposition."""
        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            session.get(f"{self.operator.url}/metrics") as response,
        ):
            return await response.text()


async def install_crd(kubeconfig: Path) -> None:
    """Have our CRD on the cluster, as it is in this checkout."""
    body = yaml.safe_load(CRD.read_text())
    async with ApiCluster.connect(kubeconfig) as cluster:
        try:
            await cluster.create(CRDS, "", body)
        except AlreadyExists:
            await cluster.patch(CRDS, "", body["metadata"]["name"], {"spec": body["spec"]})

        async def served() -> bool:
            try:
                await cluster.list(RUN, "default")
            except KubeError:
                return False
            return True

        await eventually(served, 20, lambda: "the CRD is not served")


def condition(status: Mapping[str, Any], kind: str) -> str | None:
    """Status of one condition; None when it is not there."""
    found: str | None = told(status, kind).get("status")
    return found


def told(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """One condition as a whole; empty when it is not there."""
    conditions = status.get("conditions") or ()
    return next((dict(c) for c in conditions if c["type"] == kind), {})


async def _get(url: str) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.get(url) as response,
    ):
        return dict(await response.json())


def _server_pod(name: str, app: str, arguments: Sequence[str]) -> Document:
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "server",
                    "image": SERVER_IMAGE,
                    "args": [
                        *("sim", "serve", "--port", str(_PORT), "--model", "m"),
                        *arguments,
                    ],
                    "env": [{"name": "POD_IP", "valueFrom": address}],
                    "imagePullPolicy": "IfNotPresent",
                    "readinessProbe": {
                        "httpGet": {"path": "/health", "port": _PORT},
                        "periodSeconds": 1,
                    },
                }
            ],
        },
    }
