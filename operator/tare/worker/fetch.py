"""An exchange whose whole answer is awaited: for control requests, not for load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.worker.failure import Failure
    from tare.worker.http import Headers

__all__ = ["Fetch"]


class Fetch:
    """Part of `http.Exchange`; `answer` is status and body, or an OSError."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self.sent_at = 0
        self.ended_at = 0
        self._status = 0
        self._body = bytearray()

    def on_sent(self, at: int) -> None:
        """Keep when it was written."""
        self.sent_at = at

    def on_head(self, at: int, status: int, headers: Headers) -> None:  # noqa: ARG002 - Exchange
        """Keep the status."""
        self._status = status

    def on_data(self, at: int, pieces: Sequence[bytes]) -> None:  # noqa: ARG002 - Exchange
        """Keep pieces of the body."""
        for piece in pieces:
            self._body += piece

    def on_end(self, at: int) -> None:
        """Answer whoever waits."""
        self.ended_at = at
        if not self.answer.done():
            self.answer.set_result((self._status, bytes(self._body)))

    def on_failure(self, at: int, failure: Failure) -> None:  # noqa: ARG002 - Exchange
        """Fail whoever waits."""
        if not self.answer.done():
            self.answer.set_exception(OSError(failure.message or failure.kind))
