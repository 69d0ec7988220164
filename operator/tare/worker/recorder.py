"""Adds up the records of one phase into the `PhaseResult` that goes to the operator.

A latency is counted for ok requests only, and each request is counted exactly once, whatever
became of it. Rates need a window: it begins at the gate and ends when sending ends, and what
arrives later, while the last answers drain, is counted but belongs to no rate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from tare.measure.counts import Count
from tare.measure.goodput import is_good
from tare.measure.histogram import Histogram
from tare.measure.messages import PhaseResult
from tare.measure.rows import Rows
from tare.worker.failure import PLANNED_CANCEL
from tare.worker.journal import row_of
from tare.worker.record import Record, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.plan.order import PhaseOrder
    from tare.worker.journal import Journal

__all__ = ["PhaseRecorder"]

_SECOND = 1_000_000_000

_FAILED = {
    Status.ERROR: None,
    Status.INCOMPLETE: Count.INCOMPLETE,
    Status.TIMEOUT: Count.TIMEOUT,
}


class PhaseRecorder:
    """Counts and distributions of one phase of one worker."""

    def __init__(
        self,
        order: PhaseOrder,
        *,
        streaming: bool,
        endpoints: Sequence[str],
        limits: Mapping[str, int],
        rows: int = 0,
        journal: Journal | None = None,
    ) -> None:
        self._order = order
        self._streaming = streaming
        self._endpoints = endpoints
        self._limits = limits
        """Goodput limits in nanoseconds."""
        self._rows = Rows(rows) if rows else None
        self._journal = journal
        self._began = 0
        self._window_end: int | None = None
        self._first: Record | None = None
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._error_samples: dict[str, str] = {}
        self._token_sources: Counter[str] = Counter()
        self._by_endpoint: Counter[str] = Counter()
        self._histograms: defaultdict[str, Histogram] = defaultdict(Histogram)

    def begin(self, at: int) -> None:
        """Open the window; it closes after the planned duration, if there is one."""
        self._began = at
        if self._order.duration is not None:
            self._window_end = at + round(self._order.duration * _SECOND)

    def cut(self, at: int) -> None:
        """Close the window early: nothing is sent any more."""
        self._window_end = at if self._window_end is None else min(self._window_end, at)

    def issue(self, lag: int) -> None:
        """Count a request that is sent now, `lag` nanoseconds after it could have been.

        That is later than its due time only by this worker's own doing: not while it waits for a
        slot. A closed loop has no such moment.
        """
        self._counts[Count.ISSUED] += 1
        if self._order.rate is not None:
            self._histograms["send_lag"].record(max(lag, 0))

    def leave(self, planned: int) -> None:
        """Count those of the `planned` requests that are not sent any more."""
        if unsent := planned - self._counts[Count.ISSUED]:
            self._counts[Count.UNSENT] += unsent

    def add(self, record: Record) -> None:
        """Count a request that has ended."""
        if self._first is None or record.number < self._first.number:
            self._first = record
        self._by_endpoint[self._endpoints[record.endpoint]] += 1
        self._keep(record)
        self._count_window(record)
        if record.sent and self._order.rate is not None:
            self._histograms["schedule_lag"].record(max(record.sent - record.due, 0))
        match record.status:
            case Status.OK:
                self._add_ok(record)
            case Status.CANCELLED:
                self._counts[Count.CANCELLED] += 1
                self._counts[Count.PLANNED_CANCEL] += record.error_kind == PLANNED_CANCEL
            case Status.ERROR | Status.INCOMPLETE | Status.TIMEOUT:
                self._add_failed(record)

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts so far, by `measure.counts.Count`."""
        return self._counts

    def histogram(self, name: str) -> dict[str, Any]:
        """Return a distribution so far as JSON."""
        return self._histograms[name].to_json()

    def result(self, *, finished: int, connections_opened: int) -> PhaseResult:
        """Sum the phase up; `finished` is when its last request had ended."""
        end = finished if self._window_end is None else min(self._window_end, finished)
        seconds = max(end - self._began, 0) / _SECOND
        return PhaseResult(
            name=self._order.name,
            kind=self._order.kind,
            planned_seconds=self._order.duration,
            seconds=seconds,
            drain_seconds=max(finished - end, 0) / _SECOND,
            counts=dict(self._counts),
            errors=dict(self._errors),
            error_samples=dict(self._error_samples),
            token_sources=dict(self._token_sources),
            endpoints=dict(self._by_endpoint),
            histograms={name: h.to_json() for name, h in sorted(self._histograms.items())},
            connections_opened=connections_opened,
            first_cached_tokens=self._first.cached_tokens if self._first else None,
            rows=self._rows.to_json() if self._rows is not None else {},
        )

    def _keep(self, record: Record) -> None:
        if self._rows is not None:
            self._rows.add(*row_of(record, self._began))
        if self._journal is not None:
            endpoint = self._endpoints[record.endpoint]
            self._journal.add(self._order.name, endpoint, record, self._began)

    def _count_window(self, record: Record) -> None:
        end, counts = self._window_end, self._counts
        if end is None:
            end = record.closed
        counts[Count.OUTPUT_TOKENS_IN_WINDOW] += record.tokens_until(end)
        first = record.first_text
        if record.prompt_tokens and first and first <= end:
            counts[Count.PROMPT_TOKENS_IN_WINDOW] += record.prompt_tokens
        if record.status is Status.OK and (record.ended or record.closed) <= end:
            counts[Count.OK_IN_WINDOW] += 1

    def _add_failed(self, record: Record) -> None:
        self._counts[Count.FAILED] += 1
        if (count := _FAILED[record.status]) is not None:
            self._counts[count] += 1
        kind = record.error_kind or record.status
        self._errors[kind] += 1
        self._error_samples.setdefault(kind, record.error_message)

    def _add_ok(self, record: Record) -> None:
        counts = self._counts
        counts[Count.OK] += 1
        counts[Count.EMPTY_OUTPUT] += record.empty_output
        counts[Count.MISSING_DONE] += record.missing_done
        counts[Count.NOT_STREAMED] += self._streaming and not record.streamed
        pace = record.time_per_output_token
        counts[Count.TPOT_UNDEFINED] += pace is None
        tokens, asked = record.output_tokens, record.asked_tokens
        counts[Count.OUTPUT_LENGTH_MISMATCH] += tokens is not None and tokens != asked
        if record.token_source is not None:
            self._token_sources[record.token_source] += 1
        values = _values(record)
        for name, value in values.items():
            if value is not None:
                self._histograms[name].record(value)
        gaps = self._histograms["inter_chunk_latency"]
        for gap in record.gaps:
            gaps.record(gap)
        if self._limits:
            values["inter_chunk_latency"] = (
                sum(record.gaps) // len(record.gaps) if record.gaps else None
            )
            counts[Count.GOOD] += is_good(self._limits, values, ok=True)


def _values(record: Record) -> dict[str, int | None]:
    """Return the value of each distribution that has one for a request."""
    return {
        "time_to_first_token": record.time_to_first_token,
        "time_to_first_event": record.time_to_first_event,
        "time_to_first_output_token": record.time_to_first_output_token,
        "request_latency": record.request_latency,
        "request_latency_from_due": record.request_latency_from_due,
        "time_per_output_token": record.time_per_output_token,
        "stream_closed": record.closed - record.sent,
        "output_tokens": record.output_tokens,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "chunks": record.chunks if record.streamed else None,
    }
