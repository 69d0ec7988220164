"""The HTTP server: listening, audit, error answers, and the paths that are not resources."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from tare.devcluster.apiserver import discovery, openapi
from tare.devcluster.apiserver.crds import CRD_KEY
from tare.devcluster.apiserver.errors import ApiError, not_implemented
from tare.devcluster.apiserver.handlers import Handlers, respond
from tare.devcluster.apiserver.routes import parse_target, verb_of

if TYPE_CHECKING:
    from tare.devcluster.apiserver.registry import Registry
    from tare.devcluster.faults import Faults

__all__ = ["ApiServer", "AuditEntry"]

_LOG = logging.getLogger(__name__)
_MAX_AUDIT = 100_000
_MAX_BODY = 3 * 1024 * 1024  # as the real server; above it answers 413
_HEALTH = {"/healthz", "/livez", "/readyz"}
_TOO_LARGE = ApiError(
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", f"limit is {_MAX_BODY}"
)
_BUG = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "a bug of the devcluster")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request as it arrived."""

    method: str
    path: str
    """With the query."""
    user_agent: str


class ApiServer:
    """Listens on loopback; it can stop listening and start again on the same port."""

    def __init__(self, registry: Registry, faults: Faults, handlers: Handlers, port: int) -> None:
        self._registry = registry
        self._faults = faults
        self._handlers = handlers
        self._runner: web.AppRunner | None = None
        self.port = port
        self.requests: deque[AuditEntry] = deque(maxlen=_MAX_AUDIT)

    async def start(self) -> None:
        """Listen; port 0 takes a free one, which later starts take again."""
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port and break every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method, path = request.method, request.path_qs
        self.requests.append(AuditEntry(method, path, request.headers.get("User-Agent", "")))
        try:
            await self._faults.before(method, path)
            response = await self._answer(request)
            self._faults.after(method, path)
        except ApiError as error:
            return _refuse(error)
        except web.HTTPRequestEntityTooLarge:
            return _refuse(_TOO_LARGE)
        except Exception:  # noqa: BLE001 - logged; a bug in one request must not end the server
            _LOG.exception("the devcluster failed at %s %s", method, path)
            return _refuse(_BUG)
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["api", _, _, *_] | ["apis", _, _, _, *_]:
                return await self._resource(request, parts)
            case _:
                return self._document(request, parts)

    async def _resource(self, request: web.Request, parts: list[str]) -> web.StreamResponse:
        target = parse_target(self._registry.resources, parts)
        watch = request.query.get("watch") in {"true", "1"}
        verb = verb_of(request.method, target, watch=watch)
        self._faults.authorize(verb, target.resource, target.namespace)
        return await self._handlers.handle(verb, request, target)

    def _document(self, request: web.Request, parts: list[str]) -> web.Response:
        """Answer what describes the server: version, health, discovery, OpenAPI."""
        resources = self._registry.resources.values()
        match parts:
            case ["version"]:
                return respond(discovery.VERSION)
            case [part] if f"/{part}" in _HEALTH:
                return web.Response(text="ok")
            case ["api"]:
                return respond({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                return respond(discovery.group_list(resources))
            case ["api", version]:
                return respond(discovery.resource_list(resources, "", version))
            case ["apis", group]:
                return respond(discovery.single_group(resources, group))
            case ["apis", group, version]:
                return respond(discovery.resource_list(resources, group, version))
            case ["openapi", "v3"]:
                return respond(openapi.index(resources, self._definitions_revision()))
            case ["openapi", "v3", *rest]:
                return respond(openapi.document(resources, "/".join(rest)))
            case _:
                raise not_implemented(f"the path {request.path}")

    def _definitions_revision(self) -> int:
        """Return a number that changes with the set of definitions."""
        versions = (
            int(document["metadata"]["resourceVersion"])
            for document in self._registry.store.all(CRD_KEY)
        )
        return max(versions, default=0)


def _refuse(error: ApiError) -> web.Response:
    return respond(error.to_status(), error.code)
