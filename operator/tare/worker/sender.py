"""Sends a phase's requests to the target: which prompt, which URL, which bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.telemetry.overriding import override
from tare.worker.answer import Answer
from tare.worker.http import request_head
from tare.worker.record import Record
from tare.worker.template import Patterns
from tare.workload.body import route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tare.net.origin import BaseUrl
    from tare.plan.order import TargetOrder
    from tare.worker.failure import Failure
    from tare.worker.phase import Call
    from tare.worker.pool import Pool, Ticket
    from tare.worker.prompts import Prompts
    from tare.worker.record import Status

__all__ = ["TargetSender", "request_heads"]


class _TargetCall(Answer):
    """An answer that can be given up together with its connection."""

    __slots__ = ("ticket",)

    ticket: Ticket

    @override
    def give_up(self, at: int, status: Status, failure: Failure) -> None:
        self.ticket.cancel()
        super().give_up(at, status, failure)


class TargetSender:
    """Sends to the URLs of a target in turn; workers begin at different ones."""

    def __init__(
        self,
        target: TargetOrder,
        *,
        pool: Pool,
        prompts: Prompts,
        heads: tuple[bytes, ...],
        first_endpoint: int = 0,
    ) -> None:
        self._streaming = target.streaming
        self._pool = pool
        self._prompts = prompts
        self._heads = heads
        self._endpoint = first_endpoint % len(heads)
        self._patterns = Patterns()

    @property
    def connections_opened(self) -> int:
        """Part of `phase.Sender`."""
        return self._pool.opened

    def send(self, number: int, due: int, done: Callable[[Call], None]) -> Call:
        """Part of `phase.Sender`."""
        entry, max_tokens, body, text = self._prompts.request(number)
        endpoint, self._endpoint = self._endpoint, (self._endpoint + 1) % len(self._heads)
        record = Record(number, entry, endpoint, max_tokens, due)
        call = _TargetCall(
            record, streaming=self._streaming, done=done, text=text, patterns=self._patterns
        )
        raw = b"%b%d\r\n\r\n%b" % (self._heads[endpoint], len(body), body)
        call.ticket = self._pool.submit(call, raw, endpoint)
        return call


def request_heads(
    target: TargetOrder, bases: Iterable[BaseUrl], headers: Mapping[str, str]
) -> tuple[bytes, ...]:
    """Encode the head of a request for each URL of the target, up to the length of the body."""
    accept = "text/event-stream" if target.streaming else "application/json"
    lines = {"Content-Type": "application/json", "Accept": accept, **headers}
    return tuple(
        request_head("POST", base.path(route(target)), target.host or base.origin.authority, lines)
        for base in bases
    )
