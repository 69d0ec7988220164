"""Simulated model servers on the embedded cluster: bare Pods behind a Service, and their own words.

What the servers counted is the proof of a demo: whether every replica was really reset, and whether
every profiler that was started was stopped, is asked of them and not of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from tare.cli.embedded import SERVER_IMAGE
from tare.kube.port import POD, SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.kube.port import Cluster, Document

__all__ = ["Counters", "Servers", "read_counters", "start_servers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Replicas of one simulated model."""

    name: str
    """Of the Service, of the `app` label, and the beginning of the pods' names."""
    namespace: str
    model: str
    replicas: int
    port: int = 8000
    arguments: Sequence[str] = ()
    """Further arguments of `tare sim serve`."""

    @property
    def pods(self) -> tuple[str, ...]:
        """Names of the pods."""
        return tuple(f"{self.name}-{index}" for index in range(self.replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What one server says happened to it."""

    pod: str
    requests: int
    resets: int
    profiler_starts: int
    profiler_stops: int
    profiler_running: bool


async def start_servers(cluster: Cluster, servers: Servers) -> None:
    """Create the Service and the pods; they are ready a moment later."""
    await cluster.create(SERVICE, servers.namespace, _service(servers))
    for name in servers.pods:
        await cluster.create(POD, servers.namespace, _pod(servers, name))


async def read_counters(cluster: Cluster, servers: Servers) -> list[Counters]:
    """Ask every server what it counted."""
    found = []
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        for name in servers.pods:
            pod = await cluster.get(POD, servers.namespace, name)
            url = f"http://{pod['status']['podIP']}:{servers.port}/admin/counters"
            async with session.get(url) as answer:
                found.append(_counters(name, await answer.json()))
    return found


def _counters(pod: str, document: Mapping[str, Any]) -> Counters:
    return Counters(
        pod=pod,
        requests=document["requests"],
        resets=document["resets"],
        profiler_starts=document["profiler_starts"],
        profiler_stops=document["profiler_stops"],
        profiler_running=document["profiler_running"],
    )


def _service(servers: Servers) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": servers.name, "namespace": servers.namespace},
        "spec": {
            "selector": {"app": servers.name},
            "ports": [{"name": "http", "port": servers.port, "targetPort": servers.port}],
        },
    }


def _pod(servers: Servers, name: str) -> Document:
    arguments = ["sim", "serve", "--port", str(servers.port), "--model", servers.model]
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    container = {
        "name": "server",
        "image": SERVER_IMAGE,
        "args": [*arguments, *servers.arguments],
        "env": [{"name": "POD_IP", "valueFrom": address}],
        "ports": [{"name": "http", "containerPort": servers.port}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": servers.port},
            "periodSeconds": 1,
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": servers.namespace,
            "labels": {"app": servers.name},
        },
        "spec": {"containers": [container]},
    }
