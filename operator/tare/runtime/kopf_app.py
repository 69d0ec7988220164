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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.runtime.process import Process

__all__ = ["run_operator"]

_RUNS = (names.GROUP, names.VERSION, names.PLURAL)
_OURS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
DELETION_PATIENCE = 330.0
"""Seconds that Kopf waits for the clean-up of a deleted run: a profiler's stop may take 300."""


async def run_operator(
    process: Process,
    *,
    operator_id: str,
    namespaces: Sequence[str],
    in_cluster: bool,
    stop: asyncio.Event,
) -> None:
    """Run Kopf until `stop` is set."""
    await kopf.operator(
        registry=_registry(process, in_cluster=in_cluster),
        # Kopf would ask for the user's name, which a pod's arbitrary UID does not have.
        identity=cast("Any", operator_id),
        standalone=True,
        namespaces=namespaces,
        clusterwide=not namespaces,
        stop_flag=stop,
    )


def _registry(process: Process, *, in_cluster: bool) -> kopf.OperatorRegistry:
    """Register the handlers of one operator; a registry of its own keeps tests apart."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry, id="login")
    def login(**kwargs: Any) -> Any:
        if in_cluster:
            return kopf.login_with_service_account(**kwargs)
        return kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.startup(registry=registry, id="open")
    async def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)
        await process.open()

    @kopf.on.cleanup(registry=registry, id="close")
    async def cleanup(**_: Any) -> None:
        await process.close()

    @kopf.on.event(*_RUNS, registry=registry, id="run")
    async def run_event(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        process.operator.see_run(_document(body), deleted=event["type"] == "DELETED")

    @kopf.on.event("batch", "v1", "jobs", labels=_OURS, registry=registry, id="job")
    async def job_event(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        process.operator.see_child("jobs", _document(body), deleted=event["type"] == "DELETED")

    @kopf.on.event("", "v1", "pods", labels=_OURS, registry=registry, id="pod")
    async def pod_event(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        process.operator.see_child("pods", _document(body), deleted=event["type"] == "DELETED")

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

    return registry


def _configure(settings: kopf.OperatorSettings) -> None:
    """Set what Kopf's defaults would get wrong for us; facts in docs/explanation."""
    settings.posting.loggers = False
    settings.posting.reporting_component = names.MANAGED_BY
    settings.persistence.finalizer = names.FINALIZER_DRIVER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=names.GROUP)
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 600
    settings.watching.client_timeout = 610
    settings.scanning.disabled = True
    # One line for each event of each child says nothing.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)


def _document(body: kopf.Body) -> dict[str, Any]:
    return dict(body)
