"""Apply a run and follow it to its end, showing its Events, its progress and its live numbers.

A person who gives up, a time-out and a lost terminal all end the same way: the run is cancelled
first, and only when the operator has said that it is finished does the cluster go. So no request
is left in flight and no profiler is left on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp

from tare.cli.view import view_of, with_live
from tare.kube.errors import KubeError, Unavailable
from tare.kube.port import EVENT, RUN

if TYPE_CHECKING:
    from tare.cli.embedded import Embedded
    from tare.cli.progress import Progress
    from tare.cli.run_file import RunFile
    from tare.kube.port import Document

__all__ = ["apply", "follow"]

_POLL_SECONDS = 0.4
_CANCEL_SECONDS = 20.0


async def apply(embedded: Embedded, run_file: RunFile) -> Document:
    """Create everything in the file; returns the run as it was stored."""
    stored: Document = {}
    for kind, document in run_file.objects:
        stored = await embedded.cluster.create(kind, run_file.namespace, document)
    return stored


async def follow(
    embedded: Embedded, run: Document, progress: Progress, *, limit: float | None = None
) -> Document:
    """Show a run until it is finished and return it.

    Raises:
        TimeoutError: it took longer than `limit` seconds; it is cancelled then.
        EmbeddedError: the operator died.
    """
    watcher = _Watcher(embedded, run, progress)
    try:
        async with asyncio.timeout(limit):
            return await watcher.to_the_end()
    except (asyncio.CancelledError, TimeoutError):
        progress.say("cancelling the run; press Ctrl-C again to kill everything", style="yellow")
        await watcher.cancel()
        raise


class _Watcher:
    def __init__(self, embedded: Embedded, run: Document, progress: Progress) -> None:
        metadata = run["metadata"]
        self._embedded = embedded
        self._namespace, self._name = metadata["namespace"], metadata["name"]
        self._uid = metadata["uid"]
        self._progress = progress
        self._told: set[str] = set()

    async def to_the_end(self) -> Document:
        async with aiohttp.ClientSession() as session:
            while True:
                self._embedded.operator.check()
                try:
                    run = await self._look(session)
                except Unavailable:
                    run = {}
                if view_of(run.get("status") or {}).finished:
                    return run
                await asyncio.sleep(_POLL_SECONDS)

    async def cancel(self) -> None:
        """Ask the operator to end the run, and give it some time to say that it has."""
        body = {"spec": {"cancel": True}}
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._embedded.cluster.patch(RUN, self._namespace, self._name, body)
                await self.to_the_end()

    async def _look(self, session: aiohttp.ClientSession) -> Document:
        run = await self._embedded.cluster.get(RUN, self._namespace, self._name)
        await self._tell_events()
        view = view_of(run.get("status") or {})
        exposition = await self._metrics(session)
        self._progress.update(
            with_live(view, exposition, namespace=self._namespace, run=self._name)
        )
        return run

    async def _tell_events(self) -> None:
        events = await self._embedded.cluster.list(EVENT, self._namespace)
        for event in sorted(events, key=_moment):
            name = event["metadata"]["name"]
            if event.get("involvedObject", {}).get("uid") != self._uid or name in self._told:
                continue
            self._told.add(name)
            if event.get("type") == "Warning":
                self._progress.say(f"{event.get('reason')}: {event.get('message')}", style="yellow")
            else:
                self._progress.say(str(event.get("message")))

    async def _metrics(self, session: aiohttp.ClientSession) -> str:
        """The operator's exposition; empty when it does not answer: live numbers may be missing."""
        with suppress(aiohttp.ClientError, TimeoutError):
            timeout = aiohttp.ClientTimeout(total=1)
            url = f"{self._embedded.operator.url}/metrics"
            async with session.get(url, timeout=timeout) as answer:
                return await answer.text()
        return ""


def _moment(event: Document) -> tuple[Any, int]:
    metadata = event["metadata"]
    return event.get("lastTimestamp") or "", int(metadata.get("resourceVersion") or 0)
