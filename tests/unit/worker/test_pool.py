from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import Any

import pytest

from support.events import normal
from support.load import ask_server, pool_of
from support.scripted import Script, ScriptedServer, Seen
from tare.net.origin import Origin, parse_origin
from tare.net.tls import client_context
from tare.worker import http
from tare.worker.endpoint import Endpoint
from tare.worker.failure import connect_failure
from tare.worker.pool import Pool
from tare.worker.record import Status

QUICK = Script(writes=[(0, data) for _, data in normal()])


class _Clock:
    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now


async def _ask_kept(server: ScriptedServer, pool: Pool) -> Any:
    """Ask without closing the pool's connections afterwards."""
    return (await ask_server(server, pool=pool, keep=True)).record


async def test_a_connection_is_reused() -> None:
    async with ScriptedServer(QUICK) as server:
        pool = pool_of(server)
        for _ in range(3):
            assert (await _ask_kept(server, pool)).status is Status.OK
        assert (server.connections, pool.opened) == (1, 1)


async def test_connections_are_opened_ahead() -> None:
    async with ScriptedServer(QUICK) as server:
        pool = pool_of(server)
        await pool.prepare(5)
        await asyncio.sleep(0.01)
        assert server.connections == pool.opened == 5
        await pool.prepare(5)
        assert pool.opened == 5


async def test_connections_ahead_are_spread_over_the_endpoints() -> None:
    async with ScriptedServer(QUICK) as one, ScriptedServer(QUICK) as two:
        await pool_of(one, two).prepare(5)
        await asyncio.sleep(0.01)
        assert (one.connections, two.connections) == (3, 2)


async def test_a_request_that_meets_a_closing_server_is_sent_again() -> None:
    def close_the_second(seen: Seen) -> Script | None:
        return None if server.requests.index(seen) == 1 else QUICK

    async with ScriptedServer(close_the_second) as server:
        pool = pool_of(server)
        await _ask_kept(server, pool)
        record = await _ask_kept(server, pool)
        assert (record.status, record.resent) == (Status.OK, True)
        assert len(server.requests) == 3
        assert record.sent < server.requests[1].read_at  # It began with the first attempt.


async def test_a_request_is_sent_again_only_once() -> None:
    async with ScriptedServer(QUICK) as server:
        pool = pool_of(server)
        await _ask_kept(server, pool)
        server.handler = lambda _: None
        record = await _ask_kept(server, pool)
        assert (record.status, record.error_kind) == (Status.ERROR, "closed")
        assert len(server.requests) == 3


async def test_a_server_that_dies_at_work_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had the request: a second attempt would hide what happened to the first."""
    clock = _Clock()
    monkeypatch.setattr(http, "monotonic_ns", clock)

    def die(_: Seen) -> None:
        clock.now += 2_000_000_000

    async with ScriptedServer(QUICK) as server:
        pool = Pool([Endpoint(parse_origin(server.url), connect_timeout=1)], clock=clock)
        await _ask_kept(server, pool)
        server.handler = die
        record = await _ask_kept(server, pool)
        assert (record.status, record.error_kind, record.resent) == (Status.ERROR, "closed", False)
        assert (len(server.requests), pool.opened) == (2, 1)


async def test_a_request_that_meets_a_408_of_an_idle_connection_is_sent_again() -> None:
    """https://www.rfc-editor.org/rfc/rfc9110#section-15.5.9"""
    gave_up = Script.json({}, status=408, headers=(("connection", "close"),), end="close")

    async with ScriptedServer(QUICK) as server:
        pool = pool_of(server)
        await _ask_kept(server, pool)
        server.handler = lambda _: gave_up if len(server.requests) == 2 else QUICK
        record = await _ask_kept(server, pool)
        assert (record.status, record.resent, record.http_status) == (Status.OK, True, 200)
        server.handler = lambda _: gave_up
        record = await _ask_kept(server, pool)
        assert (record.error_kind, record.resent) == ("http_408", True)
        assert len(server.requests) == 5


async def test_a_fresh_connection_that_closes_is_the_servers_failure() -> None:
    async with ScriptedServer(lambda _: None) as server:
        record = (await ask_server(server)).record
        assert (record.status, record.error_kind, record.resent) == (Status.ERROR, "closed", False)
        assert len(server.requests) == 1


async def test_a_connection_that_idled_too_long_is_not_used() -> None:
    async with ScriptedServer(QUICK) as server:
        clock = _Clock()
        endpoint = Endpoint(parse_origin(server.url), connect_timeout=1)
        pool = Pool([endpoint], clock=clock)
        await pool.prepare(1)
        clock.now += 3_900_000_000
        await pool.prepare(0)
        assert pool.opened == 1
        await pool.prepare(1)
        assert pool.opened == 2


async def test_a_refused_connection_is_not_tried_for_ever() -> None:
    async with ScriptedServer(QUICK) as server:
        pool = pool_of(server)
    with pytest.raises(ConnectionRefusedError):
        await pool.prepare(1)


async def test_an_endpoint_that_failed_is_not_tried_for_every_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A silent one takes seconds each time, and a phase may begin with thousands."""
    async with ScriptedServer(QUICK) as gone:
        pass
    async with ScriptedServer(QUICK) as server:
        loop = asyncio.get_running_loop()
        connect, tried = loop.create_connection, 0

        async def counted(*arguments: Any, **more: Any) -> Any:
            nonlocal tried
            tried += 1
            return await connect(*arguments, **more)

        monkeypatch.setattr(loop, "create_connection", counted)
        pool = pool_of(gone, server)
        with pytest.raises(ConnectionRefusedError):
            await pool.prepare(1000)
        assert pool.opened == 500
        assert tried <= 500 + 64


async def test_of_several_addresses_the_one_that_accepts_is_tried_first_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedServer(QUICK, host="127.0.0.2") as server:
        loop = asyncio.get_running_loop()
        connect, tried = loop.create_connection, []

        async def known(*_: Any, **__: Any) -> Any:
            return [(0, 0, 0, "", (f"127.0.0.{n}", server.port)) for n in (3, 2, 4)]

        async def noted(factory: Any, address: str, *arguments: Any, **more: Any) -> Any:
            tried.append(address)
            return await connect(factory, address, *arguments, **more)

        monkeypatch.setattr(loop, "getaddrinfo", known)
        monkeypatch.setattr(loop, "create_connection", noted)
        endpoint = Endpoint(parse_origin(f"http://several:{server.port}"), connect_timeout=2)
        for _ in range(2):
            await endpoint.connect(asyncio.Protocol)
        assert tried == ["127.0.0.3", "127.0.0.2", "127.0.0.2"]


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
async def test_a_host_that_cannot_be_a_name_is_said_so(host: str) -> None:
    origin = Origin(scheme="http", host=host, port=1)
    with pytest.raises(OSError, match=host[:20]):
        await Endpoint(origin, connect_timeout=1).connect(asyncio.Protocol)


async def test_a_name_that_no_certificate_can_have_is_said_so() -> None:
    origin = Origin(scheme="https", host="127.0.0.1", port=1)
    tls = client_context(verify=False)
    with pytest.raises(OSError, match="certificate"):
        await Endpoint(origin, connect_timeout=1, tls=tls, server_name=".x").resolve()


async def test_a_connection_that_does_not_come_is_given_up() -> None:
    with socket.socket() as listener, contextlib.ExitStack() as fillers:
        # Linux drops requests for a connection silently once nobody accepts the ones before.
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        origin = parse_origin(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            await Endpoint(origin, connect_timeout=0.05).connect(asyncio.Protocol)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EADDRNOTAVAIL, "no port"), "client_exhausted"),
        (OSError(errno.EMFILE, "no file"), "client_exhausted"),
        (ssl.SSLCertVerificationError("self-signed certificate"), "tls"),
        (ConnectionRefusedError(111, "refused"), "connect"),
        (TimeoutError(), "connect"),
    ],
)
def test_the_cause_of_a_failed_connection_has_a_kind(error: Exception, kind: str) -> None:
    failure = connect_failure(error)
    assert failure.kind == kind
    assert failure.message
