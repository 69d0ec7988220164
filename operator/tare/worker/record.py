"""What is known of one request, and the numbers that follow from it.

All moments are nanoseconds of `time.monotonic_ns`; 0 means "did not happen". A number that has no
meaning for a request is None, never 0: a zero would pass every goal and pull every mean down.
Definitions: a request begins just before its first byte is written and ends with the last text of
the answer, not with the usage event or `[DONE]` that may follow a round trip later.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Record", "Status", "TokenSource"]


class Status(StrEnum):
    """How a request ended; each has exactly one."""

    OK = "ok"
    ERROR = "error"
    """The server, the network or the client failed it."""
    INCOMPLETE = "incomplete"
    """The answer began and broke off."""
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    """By this worker: planned so, the phase's grace period was over, or the run was stopped."""


class TokenSource(StrEnum):
    """Where the number of output tokens comes from."""

    USAGE = "usage"
    """The server counted them."""
    CHUNKS = "chunks"
    """It did not; one event with text is taken for one token."""


@dataclass(init=False)
class Record:
    """One request; filled while its answer is read, then left alone.

    What did not happen is a default of the class: setting twenty of them for each request takes as
    long as reading a piece of an answer.
    """

    number: int
    """Its number in the phase, over all workers."""
    entry: int
    """Index of its prompt in the dataset."""
    endpoint: int = 0
    """Index of the URL that it went to."""
    asked_tokens: int | None = None
    """`max_tokens` of the request."""

    due: int = 0
    """When the plan wanted it sent; in a closed loop the moment a slot became free."""
    sent: int = 0
    """Just before the first byte was written, at the first attempt."""
    first_event: int = 0
    first_text: int = 0
    first_output: int = 0
    """First text that is not reasoning."""
    last_text: int = 0
    closed: int = 0
    """End of the answer as HTTP sees it, or the moment it was given up."""
    gaps: array[int] = field(default_factory=lambda: array("q"))
    """Between one event with text and the next; 0 when both came in one read."""

    status: Status = Status.ERROR
    error_kind: str | None = None
    error_message: str = ""
    http_status: int | None = None
    streamed: bool = False
    """The answer came as an event stream."""
    finish_reason: str | None = None
    missing_done: bool = False
    resent: bool = False
    """Sent a second time, since the server had closed the reused connection."""

    chunks: int = 0
    """Events with text."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    token_source: TokenSource | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __init__(
        self,
        number: int,
        entry: int,
        endpoint: int = 0,
        asked_tokens: int | None = None,
        due: int = 0,
        **known: Any,
    ) -> None:
        """Take what is known before the send, and any other field."""
        self.number = number
        self.entry = entry
        self.endpoint = endpoint
        self.asked_tokens = asked_tokens
        self.due = due
        self.gaps = array("q")
        if known:
            for name, value in known.items():
                setattr(self, name, value)

    @property
    def time_to_first_token(self) -> int | None:
        """From the send to the first text of any kind."""
        return self.first_text - self.sent if self.streamed and self.first_text else None

    @property
    def time_to_first_event(self) -> int | None:
        """From the send to the first event, which need not carry text."""
        return self.first_event - self.sent if self.first_event else None

    @property
    def time_to_first_output_token(self) -> int | None:
        """From the send to the first text that is not reasoning."""
        return self.first_output - self.sent if self.streamed and self.first_output else None

    @property
    def ended(self) -> int | None:
        """End of the request: its last text, or the end of an answer that was not streamed."""
        if self.streamed:
            return self.last_text or None
        return self.closed or None

    @property
    def request_latency(self) -> int | None:
        """From the send to the end."""
        return self.ended - self.sent if self.ended and self.sent else None

    @property
    def request_latency_from_due(self) -> int | None:
        """From the due time to the end: what a user waits who does not wait for our turn."""
        return self.ended - self.due if self.ended and self.sent else None

    @property
    def time_per_output_token(self) -> int | None:
        """(latency - time to first token) / (tokens - 1).

        None for one token, and when all text came in one read, which says nothing about a pace.
        """
        if not self.streamed or self.output_tokens is None or self.output_tokens <= 1:
            return None
        if self.last_text == self.first_text:
            return None
        return (self.last_text - self.first_text) // (self.output_tokens - 1)

    @property
    def empty_output(self) -> bool:
        """Answered well, without a single character."""
        return self.status is Status.OK and self.chunks == 0

    def tokens_until(self, moment: int) -> int:
        """Output tokens that had arrived at `moment`.

        Within an answer that straddles it, tokens are spread evenly over the events with text.
        """
        ended = self.ended
        tokens = self.output_tokens or 0
        if ended is None or ended <= moment:
            return tokens if ended is not None else 0
        if not self.streamed or not self.first_text or self.first_text > moment:
            return 0
        at, arrived = self.first_text, 1
        for gap in self.gaps:
            at += gap
            if at > moment:
                break
            arrived += 1
        return tokens * arrived // self.chunks
