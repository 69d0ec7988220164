"""The status of a pod as the kubelet writes it, from what it knows about the one container."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tare.devcluster.apiserver.documents import Document
from tare.devcluster.node.conditions import set_condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.devcluster.node.containers import Exit

__all__ = ["PodState", "write_status"]

_HOST_ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """What is known about a pod's container at one moment."""

    address: str
    started_at: str
    """When the pod was accepted by the node."""
    state: Document
    """`waiting`, `running` or `terminated`, as in `containerStatuses[].state`."""
    last_state: Document
    ready: bool = False
    restarts: int = 0
    phase: str = "Pending"

    def waiting(self, reason: str, message: str = "") -> PodState:
        """Return the state of a container that cannot run yet."""
        waiting = {"reason": reason, **({"message": message} if message else {})}
        return replace(self, state={"waiting": waiting}, ready=False)

    def running(self, now: str) -> PodState:
        """Return the state of a container that was started."""
        return replace(self, state={"running": {"startedAt": now}}, phase="Running")

    def terminated(self, ended: Exit, now: str) -> PodState:
        """Return the state of a container that ended."""
        started = (self.state.get("running") or {}).get("startedAt", now)
        terminated = {
            "exitCode": ended.code,
            "reason": str(ended.reason),
            "startedAt": started,
            "finishedAt": now,
        }
        return replace(self, state={"terminated": terminated}, ready=False)

    def finished(self) -> PodState:
        """Return the state of a pod whose container does not run again."""
        code = self.state["terminated"]["exitCode"]
        return replace(self, phase="Failed" if code else "Succeeded")

    def restarting(self, reason: str, message: str) -> PodState:
        """Return the state of a container that ended and will run again."""
        return replace(
            self.waiting(reason, message), last_state=self.state, restarts=self.restarts + 1
        )


def write_status(pod: Document, state: PodState, now: str) -> Callable[[Document], None]:
    """Return the change that writes a state into a pod."""
    container = pod["spec"]["containers"][0]

    def change(document: Document) -> None:
        status = document.setdefault("status", {})
        generation = document["metadata"].get("generation", 1)
        status.update(_addresses(state))
        status.update(phase=state.phase, startTime=state.started_at, observedGeneration=generation)
        status["containerStatuses"] = [_container_status(container, state)]
        _conditions(status, container["name"], state, now)

    return change


def _addresses(state: PodState) -> dict[str, Any]:
    shown: dict[str, Any] = {"hostIP": _HOST_ADDRESS, "hostIPs": [{"ip": _HOST_ADDRESS}]}
    if state.phase != "Pending":  # as with a real network, only once the pod has started
        shown |= {"podIP": state.address, "podIPs": [{"ip": state.address}]}
    return shown


def _container_status(container: Document, state: PodState) -> Document:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": state.ready,
        "started": "running" in state.state,
        "restartCount": state.restarts,
        "state": state.state,
        "lastState": state.last_state,
    }


def _conditions(status: Document, container: str, state: PodState, now: str) -> None:
    set_condition(status, "PodScheduled", status="True", now=now)
    set_condition(status, "Initialized", status="True", now=now)
    reason = message = ""
    if state.phase == "Succeeded":
        reason = "PodCompleted"
    elif not state.ready:
        reason = "PodFailed" if state.phase == "Failed" else "ContainersNotReady"
        message = f"containers with unready status: [{container}]" * (state.phase != "Failed")
    word = "True" if state.ready else "False"
    for kind in ("ContainersReady", "Ready"):
        set_condition(status, kind, status=word, now=now, reason=reason, message=message)
