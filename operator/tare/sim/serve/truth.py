"""The log of truth: what really happened to this server, for tests of what others say about it.

An operator's claim ("reset on each replica", "the profiler ran around profiling only") is checked
against the servers' own logs. Times are nanoseconds of the machine's monotonic clock, which all
processes of one machine share.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from tare.sim.core.generations import Generation
from tare.sim.serve.http import Request
from tare.sim.serve.openai import TextRequest

__all__ = ["Truth"]

_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key"})


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts since the start or since `/admin/reset_counters`."""

    requests: int = 0
    """Accepted requests for text."""
    requests_complete: int = 0
    requests_aborted: int = 0
    """Ended early, by the client or by a fault."""
    requests_given_up: int = 0
    """Waited for so long that the server model refused them."""
    requests_refused: int = 0
    """Answered with an error: 4xx, draining, or a fault."""
    requests_while_profiling: int = 0
    """Arrived while the profiler ran."""
    peak_in_flight: int = 0
    first_request_ns: int | None = None
    last_request_ns: int | None = None
    prompt_tokens: int = 0
    """Sums over complete requests, equal to the sums of their `usage`."""
    cached_tokens: int = 0
    generated_tokens: int = 0
    resets: int = 0
    """Resets that emptied the cache."""
    resets_refused: int = 0
    """Resets that were refused since a request was running."""
    profiler_starts: int = 0
    profiler_starts_refused: int = 0
    """Starts while the profiler ran: 409."""
    profiler_stops: int = 0
    """All stops that were answered with success, also those with nothing to stop."""


class Lateness:
    """How much later than it was due each piece of an answer was written; up to 20 ms in detail."""

    _BIN_NS = 10_000
    _BINS = 2000

    def __init__(self) -> None:
        self._counts = [0] * (self._BINS + 1)

    def observe(self, late_ns: int) -> None:
        """Count one piece."""
        self._counts[min(late_ns // self._BIN_NS, self._BINS)] += 1

    def percentile(self, percent: int) -> int:
        """Return the upper end, in nanoseconds, of the bin of the nearest rank; 0 for none."""
        rank = max(1, -(-sum(self._counts) * percent // 100))
        seen = accumulate(self._counts)
        return next((n + 1 for n, count in enumerate(seen) if count >= rank), 0) * self._BIN_NS


@dataclass(slots=True, kw_only=True)
class _Entry:
    request: Request
    asked: TextRequest
    generation: Generation
    identity: str
    while_profiling: bool


@dataclass(slots=True, kw_only=True)
class _Window:
    start_ns: int
    stop_ns: int | None = None
    body: Any = None
    """What the start was asked: prefix of the trace's name, number of iterations."""


class Truth:
    """Everything that the admin routes tell."""

    def __init__(self, keep: int) -> None:
        """Remember the last `keep` requests one by one."""
        self.counts = Counts()
        self.in_flight = 0
        self.lateness = Lateness()
        self._windows: list[_Window] = []
        self._entries: deque[_Entry] = deque(maxlen=keep)

    @property
    def profiling(self) -> bool:
        """Whether the profiler runs."""
        return bool(self._windows) and self._windows[-1].stop_ns is None

    def forget(self) -> None:
        """Set all counts to zero; a profiler that runs goes on."""
        self.counts = Counts()
        self.lateness = Lateness()
        self._entries.clear()
        self._windows = self._windows[-1:] if self.profiling else []

    def on_request(
        self, request: Request, asked: TextRequest, generation: Generation, identity: str
    ) -> None:
        """An accepted request starts."""
        counts = self.counts
        counts.requests += 1
        self.in_flight += 1
        counts.peak_in_flight = max(counts.peak_in_flight, self.in_flight)
        counts.last_request_ns = request.arrived_ns
        if counts.first_request_ns is None:
            counts.first_request_ns = request.arrived_ns
        profiling = self.profiling
        counts.requests_while_profiling += profiling
        self._entries.append(
            _Entry(
                request=request,
                asked=asked,
                generation=generation,
                identity=identity,
                while_profiling=profiling,
            )
        )

    def on_complete(self, generation: Generation) -> None:
        """An accepted request is answered completely."""
        self.in_flight -= 1
        counts = self.counts
        counts.requests_complete += 1
        counts.prompt_tokens += generation.prompt_tokens
        counts.cached_tokens += generation.cached_tokens
        counts.generated_tokens += generation.generated

    def on_aborted(self) -> None:
        """An accepted request ends early."""
        self.in_flight -= 1
        self.counts.requests_aborted += 1

    def on_given_up(self) -> None:
        """An accepted request is refused after all."""
        self.in_flight -= 1
        self.counts.requests_given_up += 1

    def start_profiler(self, now_ns: int, body: object) -> bool:
        """Start the profiler; False when it runs already."""
        if self.profiling:
            self.counts.profiler_starts_refused += 1
            return False
        self.counts.profiler_starts += 1
        self._windows.append(_Window(start_ns=now_ns, body=body))
        return True

    def stop_profiler(self, now_ns: int) -> None:
        """Stop the profiler; without one that runs this only counts."""
        self.counts.profiler_stops += 1
        if self.profiling:
            self._windows[-1].stop_ns = now_ns

    def counters(self) -> dict[str, Any]:
        """Return the counts and the profiler's windows as JSON."""
        counts = {name: getattr(self.counts, name) for name in Counts.__slots__}
        windows = [
            {"start_ns": window.start_ns, "stop_ns": window.stop_ns, "body": window.body}
            for window in self._windows
        ]
        return {
            **counts,
            "in_flight": self.in_flight,
            "late_p50_ns": self.lateness.percentile(50),
            "late_p99_ns": self.lateness.percentile(99),
            "profiler_running": self.profiling,
            "profiler_windows": windows,
        }

    def requests(self, last: int | None) -> list[dict[str, Any]]:
        """Return the remembered requests as JSON, oldest first; headers without secrets."""
        skipped = 0 if last is None else max(0, len(self._entries) - last)
        return [_document(entry) for entry in islice(self._entries, skipped, None)]


def _document(entry: _Entry) -> dict[str, Any]:
    request, asked, generation = entry.request, entry.asked, entry.generation
    return {
        "arrived_ns": request.arrived_ns,
        "path": request.path,
        "id": entry.identity,
        "messages" if asked.chat else "prompt": asked.text,
        "max_tokens": asked.limit,
        "stream": asked.stream,
        "prompt_tokens": generation.prompt_tokens,
        "cached_tokens": max(0, generation.cached_tokens),
        "generated_tokens": generation.generated,
        "finished": generation.finished,
        "first_token_due_ns": generation.first_token_at,
        "last_token_due_ns": generation.last_token_at,
        "while_profiling": entry.while_profiling,
        "headers": {
            name: value for name, value in request.headers.items() if name not in _SECRET_HEADERS
        },
    }
