"""What one operator process opens and closes: clients, inbox, tasks of its own.

Opened and closed by Kopf's start-up and clean-up activities, since Kopf takes every task that is
created while it runs for its own, and cancels it at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tare.api import names
from tare.endpoint.client import ControlClient
from tare.kube.client import ApiCluster
from tare.kube.errors import KubeError
from tare.kube.port import JOB, POD, RUN, Cluster, Kind
from tare.results.store import ResultStore
from tare.runtime.claims import Claims
from tare.runtime.context import Context
from tare.runtime.inbox import Inbox
from tare.runtime.operator import Operator
from tare.runtime.server import Health, serve
from tare.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from tare.runtime.settings import Settings
    from tare.telemetry.clock import Clock

__all__ = ["Process"]

_LOG = logging.getLogger(__name__)
_WATCHED = (RUN, JOB, POD)
_LAG_INTERVAL = 0.5
_LIST_AGAIN = 2.0


class Process:
    """The parts of a running operator."""

    def __init__(self, settings: Settings, clock: Clock, operator_id: str) -> None:
        self._settings = settings
        self._clock = clock
        self._operator_id = operator_id
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.operator: Operator
        """Set by `open`, before Kopf calls any other handler."""

    async def open(self) -> None:
        """Connect, listen, and start the operator's own tasks."""
        metrics = Metrics()
        cluster = await self._stack.enter_async_context(ApiCluster.connect())
        control = await self._stack.enter_async_context(ControlClient())
        context = Context(
            settings=self._settings,
            cluster=cluster,
            control=control,
            store=ResultStore(cluster),
            claims=Claims(cluster),
            metrics=metrics,
            clock=self._clock,
            operator_id=self._operator_id,
        )
        self.operator = Operator(context)
        health = Health(lambda: self.operator.overdue, [resource.plural for resource in _WATCHED])
        inbox = Inbox(context.books, self._settings.operator_key, metrics)
        await self._stack.enter_async_context(serve(self._settings, inbox, metrics, health))
        self._tasks = [
            asyncio.create_task(self.operator.sweeper.run(), name="ttl"),
            asyncio.create_task(self._watch_loop(metrics), name="event-loop lag"),
            asyncio.create_task(self._list_once(cluster, health), name="first lists"),
        ]

    async def close(self) -> None:
        """Leave the runs to the next process, then close."""
        await self.operator.exit()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._stack.aclose()

    async def _watch_loop(self, metrics: Metrics) -> None:
        """Measure how late the event loop wakes up, and count who is connected."""
        while True:
            due = self._clock.now() + _LAG_INTERVAL
            await self._clock.sleep(_LAG_INTERVAL)
            metrics.event_loop_lag_seconds.observe(max(0.0, self._clock.now() - due))
            books = self.operator.context.books.values()
            metrics.workers_connected.set(sum(book.connected for book in books))

    async def _list_once(self, cluster: Cluster, health: Health) -> None:
        """List what Kopf watches: without the right to, Kopf only logs, and nothing happens."""
        for resource in _WATCHED:
            while not await self._listed(cluster, resource):
                await self._clock.sleep(_LIST_AGAIN)
            health.listed(resource.plural)

    async def _listed(self, cluster: Cluster, resource: Kind) -> bool:
        labels = None if resource is RUN else {names.LABEL_MANAGED_BY: names.MANAGED_BY}
        try:
            for namespace in self._settings.namespaces or ("",):
                await cluster.list(resource, namespace, labels=labels)
        except KubeError as error:
            _LOG.warning("%s cannot be listed yet: %s", resource.plural, error)
            return False
        return True
