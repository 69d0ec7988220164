"""A network that swallows every request, in the time of a fake clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.endpoint.client import Answer, CallError, CallFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.clock import FakeClock

__all__ = ["SilentNetwork"]


class SilentNetwork:
    """A `Control` that takes each call's whole timeout, as servers do that never answer."""

    def __init__(self, clock: FakeClock) -> None:
        self.urls: list[str] = []
        self._clock = clock

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],  # noqa: ARG002 - the port's signature
        timeout: float,  # noqa: ASYNC109 - the port's signature
        host: str | None = None,  # noqa: ARG002 - the port's signature
        body: bytes | None = None,  # noqa: ARG002 - the port's signature
    ) -> Answer:
        """Let `timeout` seconds pass and fail."""
        self.urls.append(url)
        await self._clock.sleep(timeout)
        raise CallError(CallFailure.TIMEOUT, f"{method} {url}: no answer within {timeout:g} s")
