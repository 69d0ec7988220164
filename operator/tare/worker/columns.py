"""The numbers of many requests at once, each number a column.

They are those of `Record`'s properties, computed without a call for each of them: a tenth of the
time, and with full load the recorder is what a request costs most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.measure.rows import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.worker.record import Record

__all__ = ["distributions", "rows"]

_MICROSECOND: Final = 1000
_OUTCOMES: Final = {outcome: number for number, outcome in enumerate(OUTCOMES)}


def distributions(records: Sequence[Record]) -> dict[str, list[int]]:
    """Return the values of each distribution but that of gaps; a request without one adds none."""
    streams = [r for r in records if r.streamed]
    texts = [r for r in streams if r.last_text and r.sent]
    whole = [r for r in records if not r.streamed and r.closed and r.sent]
    return {
        "time_to_first_token": [r.first_text - r.sent for r in streams if r.first_text],
        "time_to_first_event": [r.first_event - r.sent for r in records if r.first_event],
        "time_to_first_output_token": [r.first_output - r.sent for r in streams if r.first_output],
        "request_latency": [r.last_text - r.sent for r in texts]
        + [r.closed - r.sent for r in whole],
        "request_latency_from_due": [r.last_text - r.due for r in texts]
        + [r.closed - r.due for r in whole],
        "time_per_output_token": [
            (r.last_text - r.first_text) // (r.output_tokens - 1)
            for r in streams
            if r.output_tokens is not None and r.output_tokens > 1 and r.last_text != r.first_text
        ],
        "stream_closed": [r.closed - r.sent for r in records],
        "output_tokens": [r.output_tokens for r in records if r.output_tokens is not None],
        "prompt_tokens": [r.prompt_tokens for r in records if r.prompt_tokens is not None],
        "cached_tokens": [r.cached_tokens for r in records if r.cached_tokens is not None],
        "chunks": [r.chunks for r in streams],
    }


def rows(records: Sequence[Record], gate: int) -> list[list[int]]:
    """Return the columns of `measure.rows` for requests that have ended."""
    return [
        [r.number for r in records],
        [r.entry for r in records],
        [(r.due - gate) // _MICROSECOND for r in records],
        [(r.sent - r.due) // _MICROSECOND if r.sent else -1 for r in records],
        [
            (r.first_text - r.sent) // _MICROSECOND if r.streamed and r.first_text else -1
            for r in records
        ],
        [
            (ended - r.sent) // _MICROSECOND
            if r.sent and (ended := r.last_text if r.streamed else r.closed)
            else -1
            for r in records
        ],
        [-1 if r.output_tokens is None else r.output_tokens for r in records],
        [-1 if r.cached_tokens is None else r.cached_tokens for r in records],
        [_OUTCOMES[r.status] for r in records],
    ]
