"""The scheduler: binds pods to the one node while their CPU requests fit on it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tare.devcluster.apiserver.documents import Document, format_time, key_of
from tare.devcluster.apiserver.registry import PODS, Registry
from tare.devcluster.apiserver.store import Change, ChangeType
from tare.devcluster.controllers.events import EventRecorder
from tare.devcluster.controllers.queue import WorkQueue
from tare.devcluster.node.conditions import set_condition
from tare.devcluster.node.quantities import parse_quantity

__all__ = ["NODE_NAME", "Scheduler"]

NODE_NAME: Final = "devcluster"
_SHORT_OF_CPU: Final = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 "
    "nodes are available: 1 No preemption victims found for incoming pod."
)
_WRONG_NODE: Final = (
    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims "
    "to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for "
    "scheduling."
)
_NODE_LABELS: Final = {
    "kubernetes.io/hostname": NODE_NAME,
    "kubernetes.io/os": "linux",
}


class Scheduler:
    """Keeps the sum of the bound pods' requests below the node's CPUs."""

    def __init__(self, registry: Registry, cpus: int) -> None:
        self._registry = registry
        self._recorder = EventRecorder(registry, "default-scheduler")
        self._cpus = Decimal(cpus)
        self._bound: dict[str, Decimal] = {}
        self._waiting: set[tuple[str, str]] = set()
        self._queue = WorkQueue(self._reconcile)
        registry.store.listen(self._on_pod, PODS)

    def close(self) -> None:
        """Stop."""
        self._queue.close()

    def _on_pod(self, change: Change) -> None:
        pod = change.document
        uid = pod["metadata"]["uid"]
        ended = pod["status"].get("phase") in {"Succeeded", "Failed"}
        if ended or change.type is ChangeType.DELETED:
            self._waiting.discard(key_of(pod))
            if self._bound.pop(uid, Decimal(0)):
                for key in self._waiting:
                    self._queue.add(key)
        elif pod["spec"].get("nodeName"):
            self._bound.setdefault(uid, _cpu_request(pod))
        elif change.type is ChangeType.ADDED:
            self._queue.add(key_of(pod))

    def _reconcile(self, key: tuple[str, str]) -> None:
        pod = self._registry.store.find(PODS, *key)
        if pod is None or pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return
        if why := self._obstacle(pod):
            self._waiting.add(key)
            self._refuse(pod, why)
            return
        self._waiting.discard(key)

        def bind(document: Document) -> None:
            document["spec"]["nodeName"] = NODE_NAME

        self._registry.modify(self._registry.resources[PODS], pod, bind)
        place = f"{key[0]}/{key[1]}"
        self._recorder.normal(pod, "Scheduled", f"Successfully assigned {place} to {NODE_NAME}")

    def _obstacle(self, pod: Document) -> str:
        """Say why the pod cannot run; empty when it can."""
        selector = pod["spec"].get("nodeSelector") or {}
        if any(_NODE_LABELS.get(name) != value for name, value in selector.items()):
            return _WRONG_NODE
        used = sum(self._bound.values(), Decimal(0))
        return _SHORT_OF_CPU if used + _cpu_request(pod) > self._cpus else ""

    def _refuse(self, pod: Document, why: str) -> None:
        now = format_time(self._registry.clock())

        def change(document: Document) -> None:
            set_condition(
                document["status"],
                "PodScheduled",
                status="False",
                now=now,
                reason="Unschedulable",
                message=why,
            )

        self._registry.modify(self._registry.resources[PODS], pod, change, subresource="status")
        self._recorder.warning(pod, "FailedScheduling", why)


def _cpu_request(pod: Document) -> Decimal:
    return sum(
        (
            parse_quantity(((container.get("resources") or {}).get("requests") or {})["cpu"])
            for container in pod["spec"]["containers"]
            if "cpu" in ((container.get("resources") or {}).get("requests") or {})
        ),
        Decimal(0),
    )
