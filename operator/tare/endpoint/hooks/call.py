"""One POST of a hook to one replica, and its audit row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tare.endpoint.client import CallError, Control
from tare.endpoint.hooks.outcomes import classify, unanswered
from tare.endpoint.hooks.retry import retry_after
from tare.measure.hooks import HookCall, HookKind, Replica
from tare.telemetry.clock import Clock

__all__ = ["Hook", "Posted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A finished POST."""

    row: HookCall
    retry: bool
    """The same POST may end otherwise later."""
    retry_after: float | None = None
    """Seconds that the server asked to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What is POSTed to every replica, and with what."""

    kind: HookKind
    path: str
    headers: Mapping[str, str]
    host: str | None
    server: str
    http: Control
    clock: Clock
    body: bytes | None = None

    async def post(
        self,
        replica: Replica,
        *,
        timeout: float,  # noqa: ASYNC109 - a retry has less of it than the first try
        attempt: int = 1,
    ) -> Posted:
        """POST once; whatever comes of it is a row, never an exception."""
        url = replica.origin + self.path
        began = self.clock.now()
        status = wait = None
        try:
            answer = await self.http.call(
                "POST",
                url,
                headers=self.headers,
                timeout=timeout,
                host=self.host,
                body=self.body,
            )
        except CallError as error:
            verdict = unanswered(error, self.kind)
        else:
            status = answer.status
            wait = retry_after(answer.headers, self.clock.wall())
            verdict = classify(
                self.kind, answer, path=self.path, server=self.server, headers=self.headers
            )
        row = HookCall(
            hook=self.kind,
            replica=replica.name,
            origin=replica.origin,
            attempt=attempt,
            status=status,
            seconds=self.clock.now() - began,
            outcome=verdict.outcome,
            message=verdict.message,
        )
        return Posted(row=row, retry=verdict.retry, retry_after=wait)
