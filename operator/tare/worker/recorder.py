"""Adds up the records of one phase into the `PhaseResult` that goes to the operator.

A latency is counted for ok requests only, and each request is counted exactly once, whatever
became of it. Rates need a window: it begins at the gate and ends when sending ends, and what
arrives later, while the last answers drain, is counted but belongs to no rate.

Records are added up by the dozen, number by number, which costs a fraction of one after the
other; whoever asks for a sum has the rest added first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from tare.measure.batch import Batch
from tare.measure.counts import Count
from tare.measure.goodput import is_good
from tare.measure.histogram import Histogram
from tare.measure.messages import PhaseResult
from tare.measure.rows import Rows
from tare.worker.columns import distributions, rows
from tare.worker.failure import PLANNED_CANCEL
from tare.worker.record import Record, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.plan.order import PhaseOrder
    from tare.worker.journal import Journal

__all__ = ["PhaseRecorder"]

_SECOND = 1_000_000_000
_BATCH: Final = 80
_BATCH_GAPS: Final = 1000
"""Records, or gaps in them, that are added up at once: in less than 0.3 ms, so that it never shows
as event-loop lag."""

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
        self._waiting: list[Record] = []
        """Ended requests that are in no sum yet."""
        self._waiting_gaps = 0
        self._issued = 0
        self._open_loop = order.rate is not None
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
        self._add_up()
        self._window_end = at if self._window_end is None else min(self._window_end, at)

    def issue(self, lag: int) -> None:
        """Count a request that is sent now, `lag` nanoseconds after it could have been.

        That is later than its due time only by this worker's own doing: not while it waits for a
        slot. A closed loop has no such moment.
        """
        self._issued += 1
        if self._open_loop:
            self._histograms["send_lag"].record(max(lag, 0))

    def leave(self, planned: int) -> None:
        """Count those of the `planned` requests that are not sent any more."""
        if unsent := planned - self._issued:
            self._counts[Count.UNSENT] += unsent

    def add(self, record: Record) -> None:
        """Count a request that has ended; its record is not changed any more."""
        if self._journal is not None:
            endpoint = self._endpoints[record.endpoint]
            self._journal.add(self._order.name, endpoint, record, self._began)
        self._waiting.append(record)
        self._waiting_gaps += record.chunks
        if len(self._waiting) >= _BATCH or self._waiting_gaps >= _BATCH_GAPS:
            self._add_up()

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts so far, by `measure.counts.Count`."""
        self._add_up()
        if self._issued:
            self._counts[Count.ISSUED] = self._issued
        return self._counts

    def histogram(self, name: str) -> dict[str, Any]:
        """Return a distribution so far as JSON."""
        self._add_up()
        return self._histograms[name].to_json()

    def result(self, *, finished: int, connections_opened: int) -> PhaseResult:
        """Sum the phase up; `finished` is when its last request had ended."""
        counts = self.counts
        end = finished if self._window_end is None else min(self._window_end, finished)
        seconds = max(end - self._began, 0) / _SECOND
        return PhaseResult(
            name=self._order.name,
            kind=self._order.kind,
            planned_seconds=self._order.duration,
            seconds=seconds,
            drain_seconds=max(finished - end, 0) / _SECOND,
            counts=dict(counts),
            errors=dict(self._errors),
            error_samples=dict(self._error_samples),
            token_sources=dict(self._token_sources),
            endpoints=dict(self._by_endpoint),
            histograms={name: h.to_json() for name, h in sorted(self._histograms.items())},
            connections_opened=connections_opened,
            first_cached_tokens=self._first.cached_tokens if self._first else None,
            rows=self._rows.to_json() if self._rows is not None else {},
        )

    def _add_up(self) -> None:
        records, self._waiting, self._waiting_gaps = self._waiting, [], 0
        if not records:
            return
        first = min(records, key=attrgetter("number"))
        if self._first is None or first.number < self._first.number:
            self._first = first
        for endpoint, count in Counter([r.endpoint for r in records]).items():
            self._by_endpoint[self._endpoints[endpoint]] += count
        if self._rows is not None:
            self._rows.add_all(rows(records, self._began))
        if self._open_loop:
            lags = [max(r.sent - r.due, 0) for r in records if r.sent]
            if lags:
                self._histograms["schedule_lag"].record_all(Batch(lags))
        self._count_window(records)
        ok = [r for r in records if r.status is Status.OK]
        if len(ok) < len(records):
            for record in records:
                self._count_other(record)
        if ok:
            self._add_ok(ok)

    def _count_window(self, records: Sequence[Record]) -> None:
        """Count what arrived in the window, all of it where a request was over by its end."""
        end, counts = self._window_end, self._counts
        within = records if end is None else [r for r in records if r.closed <= end]
        counts[Count.OUTPUT_TOKENS_IN_WINDOW] += sum(
            [
                r.output_tokens
                for r in within
                if r.output_tokens and (r.last_text if r.streamed else r.closed)
            ]
        )
        if tokens := sum([r.prompt_tokens for r in within if r.prompt_tokens and r.first_text]):
            counts[Count.PROMPT_TOKENS_IN_WINDOW] += tokens
        if ok := sum([r.status is Status.OK for r in within]):
            counts[Count.OK_IN_WINDOW] += ok
        if end is not None and len(within) < len(records):
            for record in records:
                if record.closed > end:
                    self._count_part(record, end)

    def _count_part(self, record: Record, end: int) -> None:
        """Count what arrived by `end` of a request that was over later."""
        counts = self._counts
        counts[Count.OUTPUT_TOKENS_IN_WINDOW] += record.tokens_until(end)
        first = record.first_text
        if record.prompt_tokens and first and first <= end:
            counts[Count.PROMPT_TOKENS_IN_WINDOW] += record.prompt_tokens
        if record.status is Status.OK and (record.ended or record.closed) <= end:
            counts[Count.OK_IN_WINDOW] += 1

    def _count_other(self, record: Record) -> None:
        """Count a request unless it is ok."""
        match record.status:
            case Status.CANCELLED:
                self._counts[Count.CANCELLED] += 1
                self._counts[Count.PLANNED_CANCEL] += record.error_kind == PLANNED_CANCEL
            case Status.ERROR | Status.INCOMPLETE | Status.TIMEOUT:
                self._counts[Count.FAILED] += 1
                if (count := _FAILED[record.status]) is not None:
                    self._counts[count] += 1
                kind = record.error_kind or record.status
                self._errors[kind] += 1
                self._error_samples.setdefault(kind, record.error_message)
            case Status.OK:
                pass

    def _add_ok(self, ok: Sequence[Record]) -> None:
        counts, columns = self._counts, distributions(ok)
        counts[Count.OK] += len(ok)
        counts[Count.EMPTY_OUTPUT] += sum([r.chunks == 0 for r in ok])
        counts[Count.MISSING_DONE] += sum([r.missing_done for r in ok])
        counts[Count.NOT_STREAMED] += sum([self._streaming and not r.streamed for r in ok])
        counts[Count.TPOT_UNDEFINED] += len(ok) - len(columns["time_per_output_token"])
        counts[Count.OUTPUT_LENGTH_MISMATCH] += sum(
            [r.output_tokens not in {None, r.asked_tokens} for r in ok]
        )
        self._token_sources.update([r.token_source for r in ok if r.token_source is not None])
        if self._limits:
            counts[Count.GOOD] += sum([_is_good(self._limits, r) for r in ok])
        columns["inter_chunk_latency"] = list(chain.from_iterable([r.gaps for r in ok]))
        batches: list[Batch] = []
        for name, values in columns.items():
            if values:
                batch = next((b for b in batches if b.values == values), None)
                if batch is None:
                    batches.append(batch := Batch(values))
                self._histograms[name].record_all(batch)


def _is_good(limits: Mapping[str, int], record: Record) -> bool:
    values = {name: getattr(record, name) for name in limits if name != "inter_chunk_latency"}
    gaps = record.gaps
    values["inter_chunk_latency"] = sum(gaps) // len(gaps) if gaps else None
    return is_good(limits, values, ok=True)
