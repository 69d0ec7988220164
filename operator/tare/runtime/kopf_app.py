"""Everything that Kopf calls: all decorators are here, and no logic is.

A daemon per live run keeps Kopf's finalizer on it, so that a deletion is noticed before the object
is gone; the work is done by the run's driver. Children only wake it. There are no create, update or
delete handlers: they would be driven by edges, and keep state in annotations.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import kopf

from tare.api import names
from tare.decide.stored import is_finished
from tare.runtime.kopf_storage import NoDiffs, PlainProgress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.runtime.process import Process

__all__ = ["run_operator"]

_RUNS = (names.GROUP, names.VERSION, names.PLURAL)
_OURS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
_BOOKMARKS = 60
"""Seconds between the bookmarks of an API server."""
_LATE = 10
"""Seconds that it may be late, with a bookmark or with the end of a watch."""
DELETION_PATIENCE = 330.0
"""Seconds that Kopf waits for the clean-up of a deleted run: a profiler's stop may take 300."""


async def run_operator(
    process: Process,
    *,
    operator_id: str,
    namespaces: Sequence[str],
    in_cluster: bool,
    watch_timeout: int,
) -> None:
    """Run Kopf until SIGTERM or SIGINT, which it takes for itself.

    A stop flag of ours would never be seen, and Kopf would wait five seconds for its waiter of it.
    """
    settings = kopf.OperatorSettings()
    _configure(settings, watch_timeout)
    await kopf.operator(
        registry=_registry(process, in_cluster=in_cluster),
        settings=settings,
        # Kopf would ask for the user's name, which a pod's arbitrary UID does not have.
        identity=cast("Any", operator_id),
        standalone=True,
        namespaces=namespaces,
        clusterwide=not namespaces,
    )


def _registry(process: Process, *, in_cluster: bool) -> kopf.OperatorRegistry:
    """Register the handlers of one operator; a registry of its own keeps tests apart."""
    registry = kopf.OperatorRegistry()
    _open_and_close(registry, process, in_cluster=in_cluster)
    _watch(registry, process)
    _hold(registry, process)
    return registry


def _open_and_close(registry: kopf.OperatorRegistry, process: Process, *, in_cluster: bool) -> None:
    @kopf.on.login(registry=registry, id="login")
    def login(**kwargs: Any) -> Any:
        if in_cluster:
            return kopf.login_with_service_account(**kwargs)
        return kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.startup(registry=registry, id="open")
    async def startup(**_: Any) -> None:
        await process.open()

    @kopf.on.cleanup(registry=registry, id="close")
    async def cleanup(**_: Any) -> None:
        await process.close()


def _watch(registry: kopf.OperatorRegistry, process: Process) -> None:
    """Hand over what the watches see: runs start or wake their drivers, children wake them."""

    @kopf.on.event(*_RUNS, registry=registry, id="run")
    async def run_event(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        process.operator.see_run(_document(body), deleted=event["type"] == "DELETED")

    @kopf.on.event("batch", "v1", "jobs", labels=_OURS, registry=registry, id="job")
    async def job_event(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        process.operator.see_child("jobs", _document(body), event["type"])

    @kopf.on.event("", "v1", "pods", labels=_OURS, registry=registry, id="pod")
    async def pod_event(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        process.operator.see_child("pods", _document(body), event["type"])


def _hold(registry: kopf.OperatorRegistry, process: Process) -> None:
    """Keep Kopf's finalizer on a live run, and let a deleted one go when its driver is done."""

    @kopf.daemon(
        *_RUNS,
        registry=registry,
        id="driver",
        when=lambda status, **_: not is_finished(status),
        cancellation_backoff=5.0,
        cancellation_timeout=DELETION_PATIENCE,
    )
    async def daemon(body: kopf.Body, stopped: kopf.DaemonStopped, **_: Any) -> None:
        driven = process.operator.drive(_document(body))
        waiting = asyncio.ensure_future(stopped.wait())
        try:
            await asyncio.wait({driven, waiting}, return_when=asyncio.FIRST_COMPLETED)
            deleted = kopf.DaemonStoppingReason.RESOURCE_DELETED
            if stopped.reason is not None and deleted in stopped.reason:
                await asyncio.wait({driven})
        finally:
            waiting.cancel()


def _configure(settings: kopf.OperatorSettings, watch_timeout: int) -> None:
    """Set what Kopf's defaults would get wrong for us; facts in docs/explanation.

    A watch that has silently lost its peer is found out by the clients' own clocks: nothing but
    bookmarks may come for a minute, nothing at all for longer means a dead connection.
    """
    settings.posting.loggers = False
    settings.posting.reporting_component = names.MANAGED_BY
    settings.persistence.finalizer = names.FINALIZER_DRIVER
    settings.persistence.progress_storage = PlainProgress(prefix=names.GROUP)
    settings.persistence.diffbase_storage = NoDiffs()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = watch_timeout
    late = min(_LATE, watch_timeout)
    settings.watching.client_timeout = watch_timeout + late
    settings.watching.inactivity_timeout = min(watch_timeout, _BOOKMARKS) + late
    # The handlers' labels are compared here; these let the API server leave out what others own.
    ours = ",".join(f"{key}={value}" for key, value in _OURS.items())
    settings.watching.label_selectors["batch", "v1", "jobs"] = ours
    settings.watching.label_selectors["", "v1", "pods"] = ours
    settings.scanning.disabled = True
    # One line for each event of each child says nothing.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)


def _document(body: kopf.Body) -> dict[str, Any]:
    return dict(body)
