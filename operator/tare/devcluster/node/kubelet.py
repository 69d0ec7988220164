"""The kubelet: one coroutine for each pod that is bound to the node."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tare.devcluster.apiserver.deletion import DeleteOptions, delete
from tare.devcluster.apiserver.errors import not_found
from tare.devcluster.apiserver.registry import PODS
from tare.devcluster.apiserver.store import Change, ChangeType
from tare.devcluster.node.pods import NodePod, NodeServices
from tare.devcluster.node.processes import ProcessContainer
from tare.devcluster.node.scheduler import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.devcluster.apiserver.documents import Document

__all__ = ["Kubelet"]

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 2.0


class Kubelet:
    """Starts what is bound to the node, ends what is deleted, removes what has ended."""

    def __init__(self, services: NodeServices, next_address: Callable[[], str]) -> None:
        self._services = services
        self._next_address = next_address
        self._pods: dict[str, NodePod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        services.registry.store.listen(self._on_pod, PODS)

    async def close(self) -> None:
        """End all pods: SIGTERM first, SIGKILL after two seconds."""
        for pod in self._pods.values():
            pod.terminate(_CLOSE_SECONDS)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_CLOSE_SECONDS)
        for pod in self._pods.values():
            pod.kill()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def kill_out_of_memory(self, namespace: str, name: str) -> None:
        """Kill a pod's process as the kernel does when memory is short (fault injection)."""
        document = self._services.registry.store.find(PODS, namespace, name)
        pod = self._pods.get(document["metadata"]["uid"]) if document is not None else None
        if pod is None or not isinstance(pod.container, ProcessContainer):
            raise not_found("", "pods", name)
        pod.container.kill_out_of_memory()

    def _on_pod(self, change: Change) -> None:
        document = change.document
        uid = document["metadata"]["uid"]
        if change.type is ChangeType.DELETED:
            self._services.logs.forget(uid)
            if uid in self._pods:
                self._pods[uid].kill()
            return
        if document["spec"].get("nodeName") != NODE_NAME:
            return
        deleting = "deletionTimestamp" in document["metadata"]
        if uid not in self._tasks and not deleting and not _has_ended(document):
            self._start(uid, document)
        elif deleting and uid in self._pods:
            self._pods[uid].terminate(document["metadata"]["deletionGracePeriodSeconds"])

    def _start(self, uid: str, document: Document) -> None:
        pod = NodePod(self._services, document, self._next_address())
        self._pods[uid] = pod
        self._tasks[uid] = asyncio.ensure_future(self._run(uid, pod, document))

    async def _run(self, uid: str, pod: NodePod, document: Document) -> None:
        try:
            await pod.run()
        except Exception:  # noqa: BLE001 - logged; a bug in one pod must not end the others
            _LOG.exception("pod %s failed in the devcluster", document["metadata"]["name"])
        finally:
            del self._pods[uid], self._tasks[uid]
        self._remove_deleted(document)

    def _remove_deleted(self, document: Document) -> None:
        """Take out a pod that was waiting for its container to end."""
        metadata = document["metadata"]
        registry = self._services.registry
        latest = registry.store.find(PODS, metadata["namespace"], metadata["name"])
        if (
            latest is None
            or latest["metadata"]["uid"] != metadata["uid"]
            or "deletionTimestamp" not in latest["metadata"]
        ):
            return
        options = DeleteOptions(uid=metadata["uid"], grace_seconds=0)
        delete(registry, registry.resources[PODS], metadata["namespace"], metadata["name"], options)


def _has_ended(document: Document) -> bool:
    return document["status"].get("phase") in {"Succeeded", "Failed"}
