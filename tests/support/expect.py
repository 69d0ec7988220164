"""What the public cases expect of the record of the normal stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.load import milliseconds
from tare.worker.record import Status, TokenSource

if TYPE_CHECKING:
    from support.load import Answered

__all__ = ["gaps", "is_normal"]


def gaps(answered: Answered) -> list[float]:
    """Gaps between chunks in milliseconds."""
    return [gap / 1e6 for gap in answered.record.gaps]


def is_normal(answered: Answered, *, shift: float = 0) -> None:
    """Assert that this is the record of the normal stream, `shift` ms later."""
    record = answered.record
    assert (record.status, record.error_kind) == (Status.OK, None)
    assert milliseconds(record.time_to_first_event) == answered.at(shift + 50)
    assert milliseconds(record.time_to_first_token) == answered.at(shift + 100)
    assert milliseconds(record.request_latency) == answered.at(shift + 120)
    first, second, third = shift + 100, shift + 110, shift + 120
    assert gaps(answered) == [answered.between(first, second), answered.between(second, third)]
    pace = milliseconds(record.time_per_output_token)
    assert pace == answered.between(first, third, parts=2)
    assert (record.chunks, record.output_tokens, answered.text) == (3, 3, "abc")
    assert record.token_source is TokenSource.USAGE
    assert record.finish_reason == "stop"
