"""The real Kubernetes client, talking to a scripted API server."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from support.scripted_http import ScriptedServer, scripted
from tare.kube.client import ApiCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["kube_api", "write_kubeconfig"]

TOKEN = "t0k3n"


def write_kubeconfig(path: Path, origin: str) -> Path:
    """Write a configuration (JSON is YAML) that names one server and one token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": origin}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def kube_api(folder: Path) -> AsyncIterator[tuple[ScriptedServer, ApiCluster]]:
    """Run a scripted API server and a client that is connected to it."""
    async with (
        scripted() as server,
        ApiCluster.connect(write_kubeconfig(folder / "kubeconfig", server.origin)) as cluster,
    ):
        yield server, cluster
