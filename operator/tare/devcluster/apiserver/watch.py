"""Watches: a stream of changes from a revision on, with bookmarks, that ends by itself.

An object that leaves the selection by a change is reported as DELETED, one that enters as ADDED.
A revision that is no longer in the log gets one ERROR event with code 410, inside a 200 stream.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from tare.devcluster.apiserver.documents import Document
from tare.devcluster.apiserver.errors import FieldError, FieldErrorType, expired, invalid
from tare.devcluster.apiserver.queries import whole_number
from tare.devcluster.apiserver.store import Change, ChangeType

if TYPE_CHECKING:
    from tare.devcluster.apiserver.registry import Registry
    from tare.devcluster.apiserver.resources import Resource
    from tare.devcluster.apiserver.selection import Selection

__all__ = ["Watch", "WatchOptions"]

_DEFAULT_SECONDS = 1800.0
_BOOKMARK_SECONDS = 60.0
_BOOKMARK_BEFORE_END = 2.0
_NO_MATCH = FieldError(
    FieldErrorType.FORBIDDEN,
    "resourceVersionMatch",
    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
)
_END_OF_INITIAL = {"k8s.io/initial-events-end": "true"}

Encoder = Callable[[Document], Document]
"""Turns an object into what the client accepts: itself, or a Table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What a watch's query says beside its selectors."""

    revision: int
    """0: begin with what is there."""
    bookmarks: bool
    initial_events: bool
    seconds: float

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> WatchOptions:
        """Read a query; 422 for initial events without the match they need."""
        wants_initial = query.get("sendInitialEvents") in {"true", "1"}
        if wants_initial and query.get("resourceVersionMatch") != "NotOlderThan":
            raise invalid("meta.k8s.io", "ListOptions", "", [_NO_MATCH])
        return cls(
            revision=whole_number(query, "resourceVersion") or 0,
            bookmarks=query.get("allowWatchBookmarks") in {"true", "1"},
            initial_events=wants_initial,
            seconds=float(whole_number(query, "timeoutSeconds") or _DEFAULT_SECONDS),
        )


class Watch:
    """One open watch request."""

    def __init__(
        self, registry: Registry, resource: Resource, selection: Selection, options: WatchOptions
    ) -> None:
        self._registry = registry
        self._resource = resource
        self._selection = selection
        self._options = options
        self._pending: deque[Document] = deque()
        self._wake = asyncio.Event()
        self._request: web.Request | None = None
        self.silent = False
        """A black hole (fault injection): it stays open and nothing is sent any more."""

    async def serve(self, request: web.Request, encode: Encoder) -> web.StreamResponse:
        """Send events until the time is over or the client is gone."""
        self._request = request
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        # No await between reading the state and listening: nothing can fall in between.
        alive = self._begin()
        self._registry.store.listen(self._on_change, self._resource.key)
        try:
            await response.prepare(request)
            await self._pump(response, encode, alive=alive)
        except ConnectionError:
            pass
        finally:
            self._registry.store.unlisten(self._on_change, self._resource.key)
        return response

    def drop(self) -> None:
        """Break the connection as a crash would (fault injection)."""
        if self._request is not None and self._request.transport is not None:
            self._request.transport.abort()

    @property
    def path(self) -> str:
        """Return the path and query of the request, for fault injection to choose by."""
        return self._request.path_qs if self._request is not None else ""

    def _begin(self) -> bool:
        """Queue what the client has to see first; False when the stream ends with that."""
        options, store = self._options, self._registry.store
        if options.initial_events or not options.revision:
            for document in store.all(self._resource.key, self._selection.namespace):
                if self._selection.matches(document):
                    self._queue(ChangeType.ADDED, document)
            if options.initial_events:
                self._queue_bookmark(_END_OF_INITIAL)
            return True
        changes = store.since(self._resource.key, options.revision)
        if changes is None:
            error = expired(f"too old resource version: {options.revision} ({store.revision})")
            self._pending.append({"type": "ERROR", "object": error.to_status()})
            return False
        for change in changes:
            self._on_change(change)
        return True

    def _on_change(self, change: Change) -> None:
        for kind, document in self._seen(change):
            self._queue(kind, document)

    def _seen(self, change: Change) -> Iterator[tuple[ChangeType, Document]]:
        """Translate a change into what this selection sees of it."""
        matches = self._selection.matches
        before = change.previous is not None and matches(change.previous)
        if change.type is ChangeType.DELETED:
            if before:
                yield ChangeType.DELETED, change.document
            return
        after = matches(change.document)
        if after:
            yield (ChangeType.MODIFIED if before else ChangeType.ADDED), change.document
        elif before and change.previous is not None:
            # The last state inside the selection, at the revision that took it out.
            version = change.document["metadata"]["resourceVersion"]
            metadata = {**change.previous["metadata"], "resourceVersion": version}
            yield ChangeType.DELETED, {**change.previous, "metadata": metadata}

    def _queue(self, kind: str, document: Document) -> None:
        self._pending.append({"type": kind, "object": document})
        self._wake.set()

    def _queue_bookmark(self, annotations: Mapping[str, str] | None = None) -> None:
        metadata: dict[str, Any] = {"resourceVersion": str(self._registry.store.revision)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        mark = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": metadata,
        }
        self._queue("BOOKMARK", mark)

    async def _pump(self, response: web.StreamResponse, encode: Encoder, *, alive: bool) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.seconds
        bookmark = min(loop.time() + _BOOKMARK_SECONDS, end - _BOOKMARK_BEFORE_END)
        while True:
            await self._flush(response, encode)
            if self.silent:
                await loop.create_future()  # until the client gives up
            now = loop.time()
            if not alive or now >= end:
                return
            if self._options.bookmarks and now >= bookmark:
                bookmark = now + _BOOKMARK_SECONDS
                self._queue_bookmark()
                continue
            until = min(end, bookmark) if self._options.bookmarks else end
            await self._wait(until - now)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _flush(self, response: web.StreamResponse, encode: Encoder) -> None:
        self._wake.clear()
        if self.silent:
            self._pending.clear()
            return
        lines = []
        while self._pending:
            event = self._pending.popleft()
            if event["type"] not in {"BOOKMARK", "ERROR"}:
                event = {"type": event["type"], "object": encode(event["object"])}
            lines.append(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))
        if lines:
            await response.write(b"".join(lines))
