from __future__ import annotations

import ssl
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.transport import MemoryTransport
from tare.telemetry.overriding import override
from tare.worker import http
from tare.worker.http import Connection, request_head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.worker.failure import Failure
    from tare.worker.http import Headers

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nabcde"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


class _Log:
    """An exchange that writes down what it is told."""

    def __init__(self) -> None:
        self.sent = 0
        self.status = 0
        self.headers: Headers = {}
        self.body = b""
        self.ends: list[str] = []

    def on_sent(self, at: int) -> None:
        self.sent = at

    def on_head(self, at: int, status: int, headers: Headers) -> None:
        assert at >= self.sent
        self.status, self.headers = status, dict(headers)

    def on_data(self, at: int, pieces: Sequence[bytes]) -> None:
        assert at >= self.sent
        self.body += b"".join(pieces)

    def on_end(self, at: int) -> None:
        assert at >= self.sent
        self.ends.append("end")

    def on_failure(self, at: int, failure: Failure) -> None:
        assert at >= self.sent
        self.ends.append(failure.kind)


class _Kept(Connection):
    """A connection that stays open after an answer."""

    __slots__ = ("freed",)

    def __init__(self) -> None:
        super().__init__()
        self.freed = 0

    @override
    def reusable(self, at: int) -> None:  # noqa: ARG002 - Connection
        self.freed += 1


def _connected() -> tuple[_Kept, MemoryTransport, _Log]:
    connection, transport, log = _Kept(), MemoryTransport(), _Log()
    connection.connection_made(transport)
    connection.send(log, b"request")
    return connection, transport, log


@pytest.mark.parametrize("answer", [CHUNKED, WITH_LENGTH, INTERIM + CHUNKED])
@given(data=st.data())
def test_an_answer_may_be_cut_anywhere(answer: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(answer)), max_size=20))
    connection, transport, log = _connected()
    for a, b in pairwise(sorted({0, len(answer), *cuts})):
        connection.data_received(answer[a:b])
    assert (log.status, log.body, log.ends) == (200, b"abcde", ["end"])
    assert (connection.freed, transport.closed) == (1, False)


def test_header_names_are_in_lower_case() -> None:
    connection, _, log = _connected()
    connection.data_received(CHUNKED)
    assert log.headers == {b"content-type": b"text/event-stream", b"transfer-encoding": b"chunked"}


def test_headers_of_an_interim_answer_are_not_those_of_the_answer() -> None:
    connection, _, log = _connected()
    connection.data_received(INTERIM + WITH_LENGTH)
    assert log.headers == {b"content-length": b"5"}


def test_names_are_compared_in_lower_case_whatever_the_others_are() -> None:
    connection, _, log = _connected()
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-type: x\r\nContent-LENGTH: 5\r\n\r\nabc")
    connection.connection_lost(None)
    assert log.ends == ["closed"]


def test_a_read_is_handed_over_in_the_pieces_that_the_server_framed() -> None:
    seen: list[list[bytes]] = []

    class Pieces(_Log):
        @override
        def on_data(self, at: int, pieces: Sequence[bytes]) -> None:  # noqa: ARG002 - Exchange
            seen.append(list(pieces))

    connection = _Kept()
    connection.connection_made(MemoryTransport())
    connection.send(Pieces(), b"request")
    connection.data_received(CHUNKED)
    assert seen == [[b"abc", b"de"]]


def test_an_answer_without_a_length_lasts_until_the_connection_closes() -> None:
    connection, _, log = _connected()
    connection.data_received(UNTIL_CLOSE)
    assert log.ends == []
    connection.connection_lost(None)
    assert (log.body, log.ends, connection.freed) == (b"abcde", ["end"], 0)


@pytest.mark.parametrize(
    ("answer", "error", "kind"),
    [
        (CHUNKED[:-9], None, "closed"),
        (WITH_LENGTH[:-1], None, "closed"),
        (UNTIL_CLOSE, ConnectionResetError(), "reset"),
        (b"", ConnectionResetError(), "reset"),
        (b"", ssl.SSLError("alert: certificate required"), "tls"),
        (b"", None, "closed"),
    ],
)
def test_a_connection_lost_too_early_is_a_failure(
    answer: bytes, error: Exception | None, kind: str
) -> None:
    connection, _, log = _connected()
    connection.data_received(answer) if answer else None
    connection.connection_lost(error)
    assert log.ends == [kind]


def test_one_connection_carries_one_exchange_after_the_other() -> None:
    connection, transport, first = _connected()
    connection.data_received(WITH_LENGTH)
    second = _Log()
    connection.send(second, b"again")
    connection.data_received(CHUNKED)
    assert transport.written == [b"request", b"again"]
    assert (first.body, second.body, second.ends) == (b"abcde", b"abcde", ["end"])


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        WITH_LENGTH + WITH_LENGTH,
        WITH_LENGTH + b"garbage",
        WITH_LENGTH + CHUNKED[:10],
    ],
    ids=["close", "HTTP/1.0", "two answers", "garbage behind", "half an answer behind"],
)
def test_a_connection_that_cannot_be_trusted_is_not_reused(answer: bytes) -> None:
    connection, transport, log = _connected()
    connection.data_received(answer)
    assert (log.body, log.ends) == (b"abcde", ["end"])
    assert (connection.freed, transport.closed) == (0, True)


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body(status: int) -> None:
    connection, _, log = _connected()
    connection.data_received(b"HTTP/1.1 %d X\r\n\r\n" % status)
    assert (log.status, log.ends) == (status, ["end"])


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nxx",
    ],
)
def test_what_is_no_http_is_a_failure(answer: bytes) -> None:
    connection, transport, log = _connected()
    connection.data_received(answer)
    assert log.ends == ["protocol"]
    assert transport.closed


@pytest.mark.parametrize("coding", [b"identity", b"gzip"])
def test_a_transfer_coding_other_than_chunked_lasts_until_the_connection_closes(
    coding: bytes,
) -> None:
    """https://www.rfc-editor.org/rfc/rfc9112#section-6.3"""
    connection, _, log = _connected()
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %b\r\n\r\nabcde" % coding)
    connection.connection_lost(None)
    assert (log.body, log.ends) == (b"abcde", ["end"])


def test_what_was_read_before_a_request_was_sent_is_no_answer_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits to be parsed; meanwhile the connection, which looks free, is used."""
    connection, transport, _ = _connected()
    connection.data_received(WITH_LENGTH)
    moments = iter([1000, 999])
    monkeypatch.setattr(http, "monotonic_ns", lambda: next(moments))
    log = _Log()
    connection.send(log, b"again")
    connection.data_received(WITH_LENGTH)
    assert (log.sent, log.status, log.ends) == (1000, 0, ["closed"])
    assert transport.closed


def test_the_servers_end_of_the_connection_is_the_end_of_ours() -> None:
    """It will not read what is left of the request."""
    connection, transport, _ = _connected()
    connection.eof_received()
    assert transport.closed


@pytest.mark.parametrize(("left", "freed"), [(0, 1), (1, 0)])
def test_a_connection_with_a_rest_of_the_request_is_not_reused(left: int, freed: int) -> None:
    connection, transport, log = _Kept(), MemoryTransport(), _Log()
    transport.unsent = left
    connection.connection_made(transport)
    connection.send(log, bytes(100_000))
    connection.data_received(WITH_LENGTH)
    assert (log.ends, connection.freed, transport.closed) == (["end"], freed, left > 0)


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    connection, transport, _ = _connected()
    connection.data_received(WITH_LENGTH)
    connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert transport.closed
    assert not connection.open


def test_an_aborted_exchange_hears_nothing_more() -> None:
    connection, _, log = _connected()
    connection.abort()
    connection.connection_lost(None)
    assert log.ends == []


def test_the_head_ends_where_the_length_goes() -> None:
    head = request_head("POST", "/v1/x", "host:8000", {"Authorization": "Bearer k"})
    assert head == (
        b"POST /v1/x HTTP/1.1\r\nHost: host:8000\r\nAccept-Encoding: identity\r\n"
        b"Authorization: Bearer k\r\nContent-Length: "
    )
