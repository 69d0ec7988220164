"""Is the target ready, does it serve the model, does it take a request like the load's?

It asks the addresses that the load will use, since that is the way that must work; hooks find out
about the pods' own. Whatever may still come is waited for: connection refused is a server that
starts. What waiting cannot mend ends at once. The probe request is sent before the reset of a cell,
never between reset and load.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from tare.api.reasons import Reason
from tare.endpoint.client import Answer, CallError, CallFailure, Control
from tare.endpoint.errors import TargetError
from tare.endpoint.probe import check_probe, probe_body
from tare.endpoint.waiting import until_ready
from tare.measure.hooks import PreflightReport
from tare.net.auth import redact
from tare.net.origin import parse_base_url
from tare.plan.order import TargetOrder
from tare.telemetry.clock import Clock
from tare.workload.body import route

__all__ = ["Target", "preflight"]

_LOOK_TIMEOUT = 5.0
"""Seconds for a GET; a server that needs longer for a list of its models is not ready."""
_SHORTEST_TIMEOUT = 1.0
"""Seconds for a call that begins in the last moment."""
_MAX_WORDS = 256
_NO_ROUTE = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)
"""Answers to `GET /health` that say nothing of health: no such route, or not for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target as the load will meet it."""

    order: TargetOrder
    headers: Mapping[str, str]
    """Written out, secrets and all."""
    http: Control | None = None
    """What the target is asked with, when it has TLS settings of its own."""


async def preflight(
    find: Callable[[], Awaitable[Target]],
    *,
    ready_timeout: float,
    http: Control,
    clock: Clock,
    tell: Callable[[str], None],
) -> PreflightReport:
    """Wait up to `ready_timeout` seconds for the target and report; never raises `TargetError`.

    `find` says where the target is; it is asked again while it raises a `TargetError` that is not
    final: the Service or a Secret may still be created. `tell` hears what is waited for.
    """
    began = clock.now()
    ends = began + ready_timeout
    try:
        target = await until_ready(find, ends=ends, clock=clock, tell=tell)
        addresses = [
            _Address(
                target=target, url=url, http=target.http or http, clock=clock, ends=ends, tell=tell
            )
            for url in target.order.urls
        ]
        await _check_all(addresses)
    except TargetError as error:
        waited = "" if error.final else f" (waited {clock.now() - began:.0f} s)"
        return PreflightReport(
            ok=False, reason=error.reason, message=error.message + waited, final=error.final
        )
    version = await addresses[0].version()
    message = f"{target.order.model} is served by {', '.join(target.order.urls)}"
    return PreflightReport(
        ok=True,
        reason=None,
        message=message,
        final=False,
        address=target.order.urls[0],
        server_version=version,
    )


async def _check_all(addresses: list[_Address]) -> None:
    """Check every address; the first that cannot be used ends the others' waiting."""
    try:
        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(address.check())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """One base URL of the load."""

    target: Target
    url: str
    http: Control
    clock: Clock
    ends: float
    """Time of `clock` at which the target must be ready."""
    tell: Callable[[str], None]

    async def check(self) -> None:
        """Wait until the address is healthy, serves the model and accepts the probe."""
        for look in (self._healthy, self._serves_model, self._accepts):
            await until_ready(look, ends=self.ends, clock=self.clock, tell=self.tell)

    async def version(self) -> str:
        """`GET /version` as vLLM, SGLang and TensorRT-LLM have it; empty when it is not there."""
        try:
            _, answer = await self._get("/version")
            found = json.loads(answer.body)["version"] if answer.ok else ""
        except (TargetError, ValueError, LookupError, TypeError):
            return ""
        return found if isinstance(found, str) else ""

    async def _healthy(self) -> None:
        """`GET /health` answers 2xx, where there is such a route."""
        url, answer = await self._get("/health")
        if not answer.ok and answer.status not in _NO_ROUTE:
            raise self._not_ready(url, answer)

    async def _serves_model(self) -> None:
        """`GET /v1/models` lists the model."""
        url, answer = await self._get("/v1/models")
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise TargetError(
                Reason.REQUEST_REJECTED,
                f"{self._said(url, answer)}; check endpoint.apiKeySecretRef and endpoint.headers",
                final=True,
            )
        served = _model_names(answer) if answer.ok else []
        if not served:
            raise self._not_ready(url, answer)
        if self.target.order.model not in served:
            raise TargetError(
                Reason.MODEL_NOT_SERVED,
                f"endpoint.model is {self.target.order.model!r}, but {url} lists: "
                + ", ".join(served),
                final=True,
            )

    async def _accepts(self) -> None:
        """The probe request is answered; a server's first one may take as long as any."""
        order = self.target.order
        url = self._url(route(order))
        answer = await self._call("POST", url, order.request_timeout, probe_body(order))
        check_probe(answer, url, self.target.headers)

    async def _get(self, path: str) -> tuple[str, Answer]:
        url = self._url(path)
        return url, await self._call("GET", url, _LOOK_TIMEOUT)

    async def _call(self, method: str, url: str, limit: float, body: bytes | None = None) -> Answer:
        left = max(self.ends - self.clock.now(), _SHORTEST_TIMEOUT)
        try:
            return await self.http.call(
                method,
                url,
                headers=self.target.headers,
                timeout=min(limit, left),
                host=self.target.order.host,
                body=body,
            )
        except CallError as error:
            final = error.failure is CallFailure.CERTIFICATE
            raise TargetError(Reason.TARGET_NOT_READY, str(error), final=final) from error

    def _url(self, path: str) -> str:
        base = parse_base_url(self.url)
        return f"{base.origin}{base.path(path)}"

    def _not_ready(self, url: str, answer: Answer) -> TargetError:
        return TargetError(Reason.TARGET_NOT_READY, self._said(url, answer), final=False)

    def _said(self, url: str, answer: Answer) -> str:
        words = redact(" ".join(answer.text.split()), self.target.headers)[:_MAX_WORDS]
        return f"GET {url} answered {answer.status} {words}".rstrip()


def _model_names(answer: Answer) -> list[str]:
    """Read the ids of an OpenAI model list: empty as in a starting router, or when it is none."""
    try:
        return [str(entry["id"]) for entry in json.loads(answer.body)["data"]]
    except (ValueError, LookupError, TypeError):
        return []
