"""What must hold of every answer, whatever its bytes are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from fuzz.streams import cut
from support.events import normal, wire
from support.transport import MemoryTransport
from tare.plan.order import PhaseOrder
from tare.telemetry.overriding import override
from tare.worker import http
from tare.worker.answer import Answer
from tare.worker.failure import MAX_MESSAGE_BYTES
from tare.worker.http import Connection
from tare.worker.record import Record, Status
from tare.worker.recorder import PhaseRecorder
from tare.worker.template import Patterns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from fuzz.streams import Case

__all__ = ["check"]

_PHASE = PhaseOrder(name="fuzz", kind="profiling", type="concurrency", concurrency=1, requests=1)
_GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(wire(normal())), wire(normal()))
_AT = 1000
"""Everything happens at one moment, so that records can be compared."""


def check(case: Case, random: Random) -> None:
    """Read a case four times, once with what the same answer with another id has taught.

    Raises:
        AssertionError: it has no record or more than one, the record contradicts itself, it
            depends on where reads end or on whether events are parsed or recognised, or the
            connection is kept and the next answer on it is not read well.
    """
    parsed = _read(case, [case.wire])
    _assert_sound(parsed.record)
    patterns = Patterns()
    assert parsed == _read(case, [case.wire], patterns), "events recognised"
    assert parsed == _read(case, cut(random, case.wire), patterns), "other reads"
    patterns = Patterns()
    _read(replace(case, wire=case.sibling), [case.sibling], patterns)
    assert parsed == _read(case, [case.wire], patterns), "learned from another answer"


@dataclass(frozen=True)
class _Read:
    """What was understood of an answer."""

    record: Record
    text: list[str]


class _Kept(Connection):
    """A connection that may be used again."""

    __slots__ = ("free",)

    free: bool

    @override
    def reusable(self, at: int) -> None:  # noqa: ARG002 - Connection
        self.free = True


def _read(case: Case, reads: Sequence[bytes], patterns: Patterns | None = None) -> _Read:
    done: list[Answer] = []
    text: list[str] = []
    answer = _answer(done, streaming=case.streaming, text=text, patterns=patterns)
    connection = _Kept()
    connection.free = False
    with patch.object(http, "monotonic_ns", lambda: _AT):
        connection.connection_made(MemoryTransport())
        connection.send(answer, b"request")
        for read in reads:
            connection.data_received(read)
        if connection.free and connection.open:
            connection.send(_answer(done, patterns=patterns), b"request")
            connection.data_received(_GOOD)
            assert done.pop().record.status is Status.OK, "the next answer"
        connection.connection_lost(case.end)
    assert len(done) == 1, f"{len(done)} records"
    return _Read(answer.record, text)


def _answer(
    done: list[Answer],
    *,
    streaming: bool = True,
    patterns: Patterns | None = None,
    text: list[str] | None = None,
) -> Answer:
    record = Record(number=0, entry=0, asked_tokens=3, due=_AT)
    return Answer(record, streaming=streaming, done=done.append, text=text, patterns=patterns)


def _assert_sound(record: Record) -> None:
    assert len(record.gaps) == max(record.chunks - 1, 0)
    assert (record.chunks > 0) == (record.first_text > 0) == (record.last_text > 0)
    assert (record.status is Status.OK) == (record.error_kind is None)
    assert len(record.error_message.encode()) <= MAX_MESSAGE_BYTES + len(" (Retry-After: 1)")
    recorder = PhaseRecorder(_PHASE, streaming=True, endpoints=["x"], limits={}, rows=1)
    recorder.begin(0)
    recorder.issue(0)
    recorder.add(record)
    assert sum(recorder.counts[kind] for kind in ("ok", "failed", "cancelled")) == 1
