"""Fault injection: how tests break the API server on purpose.

Every switch may be called from any thread while the cluster runs; it has taken effect when the
call returns. Rules are tried in the order they were added.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from tare.devcluster.apiserver import errors
from tare.devcluster.apiserver.errors import ApiError
from tare.devcluster.apiserver.watch import Watch

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.resources import Resource
    from tare.devcluster.apiserver.store import Store

__all__ = ["Faults"]

_Result = TypeVar("_Result")
Run = Callable[[Callable[[], _Result]], _Result]

_REASONS = {
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
}


@dataclass(slots=True)
class _Failure:
    method: str
    path: re.Pattern[str]
    status: int
    left: int
    after_store: bool

    def matches(self, method: str, path: str) -> bool:
        return self.left > 0 and self.method in {"*", method} and bool(self.path.search(path))


@dataclass(slots=True)
class _State:
    failures: list[_Failure] = field(default_factory=list)
    delays: list[tuple[re.Pattern[str], float]] = field(default_factory=list)
    denied: set[tuple[str, str]] = field(default_factory=set)
    refused_pods: str = ""
    watches: set[Watch] = field(default_factory=set)


class Faults:
    """The switches, and the checkpoints at which the server asks for them."""

    def __init__(self, store: Store, run: Callable[[Callable[[], None]], None]) -> None:
        self._store = store
        self._run = run
        self._state = _State()

    def fail(
        self,
        method: str,
        path: str,
        *,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        times: int = 1,
        after_store: bool = False,
    ) -> None:
        """Answer the next `times` requests with `status`.

        `method` may be `*`; `path` is a regular expression searched in path and query. With
        `after_store` the request is carried out first: the client cannot know that it was.
        """
        failure = _Failure(method, re.compile(path), status, times, after_store)
        self._run(lambda: self._state.failures.append(failure))

    def delay(self, path: str, seconds: float) -> None:
        """Let requests whose path and query match wait before they are carried out."""
        entry = (re.compile(path), seconds)
        self._run(lambda: self._state.delays.append(entry))

    def deny(self, verb: str, plural: str) -> None:
        """Refuse a verb on a resource with 403, as missing RBAC would."""
        self._run(lambda: self._state.denied.add((verb, plural)))

    def allow(self, verb: str, plural: str) -> None:
        """Undo `deny`."""
        self._run(lambda: self._state.denied.discard((verb, plural)))

    def refuse_pods(self, why: str = "exceeded quota: devcluster") -> None:
        """Refuse every new pod with 403 and this reason, as a ResourceQuota would."""
        self._run(lambda: setattr(self._state, "refused_pods", why))

    def admit_pods(self) -> None:
        """Undo `refuse_pods`."""
        self._run(lambda: setattr(self._state, "refused_pods", ""))

    def drop_watches(self, path: str = "") -> None:
        """Break the open watches whose path and query match; clients resume."""
        self._run(lambda: self._each_watch(path, Watch.drop))

    def expire_watches(self, path: str = "") -> None:
        """Break the open watches and forget the log: a resume is answered with 410."""

        def expire() -> None:
            self._store.compact()
            self._each_watch(path, Watch.drop)

        self._run(expire)

    def black_hole_watches(self, path: str = "") -> None:
        """Let the open watches stay open and send nothing any more, not even bookmarks."""

        def silence(watch: Watch) -> None:
            watch.silent = True

        self._run(lambda: self._each_watch(path, silence))

    def clear(self) -> None:
        """Undo every lasting switch; watches that are black holes stay so."""

        def reset() -> None:
            self._state = _State(watches=self._state.watches)

        self._run(reset)

    def _each_watch(self, path: str, action: Callable[[Watch], None]) -> None:
        pattern = re.compile(path)
        for watch in list(self._state.watches):
            if pattern.search(watch.path):
                action(watch)

    async def before(self, method: str, path: str) -> None:
        """Wait or fail before a request is carried out; for the server."""
        for pattern, seconds in self._state.delays:
            if pattern.search(path):
                await asyncio.sleep(seconds)
        self._fail_if_asked(method, path, after_store=False)

    def after(self, method: str, path: str) -> None:
        """Fail after a request was carried out; for the server."""
        self._fail_if_asked(method, path, after_store=True)

    def authorize(self, verb: str, resource: Resource, namespace: str | None) -> None:
        """Refuse a verb that is denied; for the server."""
        if (verb, resource.plural) not in self._state.denied:
            return
        scope = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
        why = (
            f'User "devcluster" cannot {verb} resource "{resource.plural}" '
            f'in API group "{resource.group}"{scope}'
        )
        raise errors.forbidden(resource.group, resource.plural, "", why)

    def is_denied(self, verb: str, plural: str) -> bool:
        """Tell whether `deny` was called; for access reviews."""
        return (verb, plural) in self._state.denied

    def admit(self, resource: Resource, document: Document) -> None:
        """Refuse a new pod while they are refused; for the server."""
        if resource.kind == "Pod" and self._state.refused_pods:
            name = document["metadata"]["name"]
            raise errors.forbidden("", "pods", name, self._state.refused_pods)

    @contextmanager
    def track(self, watch: Watch) -> Iterator[None]:
        """Know a watch while it is open; for the server."""
        watches = self._state.watches
        watches.add(watch)
        try:
            yield
        finally:
            watches.discard(watch)

    def _fail_if_asked(self, method: str, path: str, *, after_store: bool) -> None:
        for failure in self._state.failures:
            if failure.after_store == after_store and failure.matches(method, path):
                failure.left -= 1
                reason = _REASONS.get(HTTPStatus(failure.status), "InternalError")
                message = f"fault injection: {method} {path}"
                raise ApiError(failure.status, reason, message)
