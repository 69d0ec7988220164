"""Control calls against a real server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from support.scripted_http import Reply, json_reply, scripted
from tare.endpoint.client import MAX_BODY, CallError, CallFailure, ControlClient

if TYPE_CHECKING:
    from support.certificates import Certificate


async def test_a_call_carries_the_given_headers_body_and_host() -> None:
    async with scripted() as server, ControlClient() as http:
        server.on("/start_profile", json_reply({"ok": True}, headers={"Retry-After": "3"}))
        answer = await http.call(
            "POST",
            f"{server.origin}/start_profile?x=1",
            headers={"Authorization": "Bearer k"},
            timeout=5,
            host="qwen.bench.svc:8000",
            body=b'{"n": 1}',
        )
        (request,) = server.requests
    assert answer.ok
    assert answer.text == '{"ok":true}'
    assert answer.headers["retry-after"] == "3"
    assert request.path == "/start_profile?x=1"
    assert request.headers["Authorization"] == "Bearer k"
    assert request.headers["Host"] == "qwen.bench.svc:8000"
    assert request.headers["Content-Type"] == "application/json"
    assert request.json() == {"n": 1}


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async with scripted() as server, ControlClient() as http:
        server.on("/reset", Reply(status=307, headers={"Location": f"{server.origin}/elsewhere"}))
        answer = await http.call("POST", f"{server.origin}/reset", headers={}, timeout=5)
        assert answer.status == 307
        assert not answer.ok
        assert len(server.requests) == 1


async def test_cookies_of_one_answer_are_not_sent_with_the_next_call() -> None:
    async with scripted() as server, ControlClient() as http:
        server.on("/", Reply(headers={"Set-Cookie": "session=1"}))
        for _ in range(2):
            await http.call("GET", f"{server.origin}/", headers={}, timeout=5)
        assert all("Cookie" not in request.headers for request in server.requests)


async def test_a_long_answer_is_cut() -> None:
    async with scripted() as server, ControlClient() as http:
        server.on("/metrics", Reply(body=b"x" * (3 * MAX_BODY)))
        answer = await http.call("GET", f"{server.origin}/metrics", headers={}, timeout=5)
    assert len(answer.body) == MAX_BODY


async def test_a_silent_server_is_a_timeout_that_names_the_call() -> None:
    async with scripted() as server, ControlClient() as http:
        server.on("/reset", Reply(silent=True))
        with pytest.raises(CallError, match=r"POST .*/reset: no answer within 0\.05 s") as caught:
            await http.call("POST", f"{server.origin}/reset", headers={}, timeout=0.05)
    assert caught.value.failure is CallFailure.TIMEOUT


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with scripted() as server:
        gone = server.origin
    async with ControlClient() as http:
        with pytest.raises(CallError) as caught:
            await http.call("GET", gone, headers={}, timeout=5)
    assert caught.value.failure is CallFailure.UNREACHABLE


async def test_a_host_that_never_accepts_is_unreachable_long_before_the_calls_timeout() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        contextlib.ExitStack() as full,
    ):
        address = server.getsockname()
        for _ in range(4):  # as many as wait to be accepted, and more: the next one gets no answer
            waiting = full.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        async with ControlClient(connect_timeout=0.05) as http:
            url = f"http://127.0.0.1:{address[1]}/stop_profile"
            with pytest.raises(CallError, match=r"no connection within 0\.05 s") as caught:
                await http.call("POST", url, headers={}, timeout=300)
    assert caught.value.failure is CallFailure.UNREACHABLE


async def test_a_connection_closed_without_an_answer_is_told_apart() -> None:
    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ControlClient() as http:
        with pytest.raises(CallError) as caught:
            await http.call("POST", f"http://127.0.0.1:{port}/x", headers={}, timeout=5)
    assert caught.value.failure is CallFailure.CLOSED


async def test_a_self_signed_certificate_is_refused_by_name(certificate: Certificate) -> None:
    async with scripted(certificate.server()) as server, ControlClient() as http:
        with pytest.raises(CallError, match="certificate verify failed") as caught:
            await http.call("GET", f"{server.origin}/health", headers={}, timeout=5)
    assert caught.value.failure is CallFailure.CERTIFICATE


async def test_a_certificate_is_checked_against_the_service_and_not_the_pods_address(
    certificate: Certificate,
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate.cert))
    async with scripted(certificate.server()) as server, ControlClient(tls=trusting) as http:
        server.on("/health", Reply())
        url = f"{server.origin}/health"
        answer = await http.call("GET", url, headers={}, timeout=5, host="qwen.bench.svc:8000")
        assert answer.ok
        with pytest.raises(CallError, match="certificate"):
            await http.call("GET", url, headers={}, timeout=5)
