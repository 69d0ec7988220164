"""Sends on real sockets and on the worker's own event loop: uvloop must not put a write off."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from tare.worker.answer import Answer
from tare.worker.http import Connection
from tare.worker.record import Record

MOST_OF_A_BODY = 8 * 1024 * 1024
"""More than a socket takes while nobody reads at its other end."""
REFUSED = b"HTTP/1.1 413 Too Large\r\n%b\r\n\r\ntoo large"


def _answer() -> Answer:
    return Answer(Record(number=0, entry=0), streaming=True, done=lambda _: None)


async def _connected() -> tuple[Connection, socket.socket]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, sock=ours)
    return connection, theirs


def test_a_request_is_on_its_way_when_its_moment_is_taken() -> None:
    async def send() -> bytes:
        connection, theirs = await _connected()
        with theirs:
            connection.send(_answer(), b"request")
            return theirs.recv(100)

    assert uvloop.run(send()) == b"request"


def test_a_send_on_a_connection_that_is_gone_is_a_failure_of_its_request() -> None:
    async def send() -> Record:
        connection, theirs = await _connected()
        theirs.close()
        done: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        record = Record(number=0, entry=0)
        answer = Answer(record, streaming=True, done=lambda a: done.set_result(a.record))
        connection.send(answer, b"request")
        return await asyncio.wait_for(done, 5)

    assert uvloop.run(send()).error_kind in ("closed", "reset")


@pytest.mark.parametrize("framing", [b"content-length: 9", b"connection: close"])
@pytest.mark.parametrize("end", ["keep", "half-close", "close"])
def test_a_refusal_comes_through_while_the_request_is_still_being_written(
    framing: bytes, end: str
) -> None:
    """The server reads no more of it, and nothing waits for the rest to be written."""

    async def send() -> Record:
        connection, theirs = await _connected()
        with theirs:
            done: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
            record = Record(number=0, entry=0)
            answer = Answer(record, streaming=True, done=lambda a: done.set_result(a.record))
            connection.send(answer, bytes(MOST_OF_A_BODY))
            theirs.send(REFUSED % framing)
            if end == "half-close":
                theirs.shutdown(socket.SHUT_WR)
            elif end == "close":
                theirs.close()
            return await asyncio.wait_for(done, 5)

    if end == "keep" and framing != b"content-length: 9":
        return  # Such an answer lasts until the connection closes.
    record = uvloop.run(send())
    assert (record.error_kind, record.error_message) == ("http_413", "too large")
    assert 0 < record.sent <= record.closed
