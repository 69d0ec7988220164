"""The inbox over HTTP: who may speak, what each refusal means, and that no secret comes back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from support.clock import FakeClock
from support.workers import KEY, RUN_UID, identity, progress, register, result, wait
from tare.decide.children import TrialKey
from tare.manifests.secret import run_token
from tare.measure.messages import Command, CommandKind, ResultReply
from tare.measure.wire import decode, encode
from tare.runtime.book import AttemptBook
from tare.runtime.inbox import Inbox
from tare.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OPERATOR_KEY = b"an operator's key of 32 bytes..."
TOKEN = run_token(OPERATOR_KEY, RUN_UID)
PREPARE = Command(do=CommandKind.PREPARE, phase=0)
MESSAGES = {
    "register": register(),
    "wait": wait(),
    "progress": progress(),
    "result": result(),
}


class Caller:
    """A worker's side of the inbox."""

    def __init__(self, client: TestClient[Any, Any], books: dict[str, AttemptBook]) -> None:
        self.client = client
        self.books = books
        self.metrics = Metrics()

    @property
    def book(self) -> AttemptBook:
        return self.books[RUN_UID]

    async def post(
        self, message: str, body: Any = None, *, token: str | None = TOKEN
    ) -> tuple[int, bytes]:
        """Send a message, by default the one of that name; returns status and body."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        data = body if isinstance(body, bytes) else encode(body or MESSAGES[message])
        async with self.client.post(f"/v1/{message}", data=data, headers=headers) as response:
            return response.status, await response.read()


@asynccontextmanager
async def inbox(*, books: dict[str, AttemptBook] | None = None) -> AsyncIterator[Caller]:
    """An inbox with one run whose driver expects one attempt."""
    if books is None:
        book = AttemptBook(FakeClock(), lambda: None)
        book.expect({KEY})
        books = {RUN_UID: book}
    app = web.Application(client_max_size=4096)
    metrics = Metrics()
    Inbox(books, OPERATOR_KEY, metrics).add_routes(app)
    async with TestClient(TestServer(app)) as client:
        caller = Caller(client, books)
        caller.metrics = metrics
        yield caller


# What goes well


async def test_a_worker_registers() -> None:
    async with inbox() as caller:
        assert await caller.post("register") == (200, b"")
        assert caller.book.views()[KEY][0].pod_uid == identity().pod_uid


async def test_a_worker_that_asks_is_answered_with_its_command() -> None:
    async with inbox() as caller:
        await caller.post("register")
        asked = asyncio.create_task(caller.post("wait"))
        while not caller.book.connected:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)
        caller.book.command(KEY, PREPARE)
        status, body = await asked
        assert (status, decode(Command, body)) == (200, PREPARE)


async def test_progress_needs_no_answer() -> None:
    async with inbox() as caller:
        await caller.post("register")
        assert await caller.post("progress") == (204, b"")
        assert caller.book.views()[KEY][0].silent == 0


async def test_a_result_is_answered_stored_when_it_is() -> None:
    async with inbox() as caller:
        await caller.post("register")
        caller.book.mark_stored(KEY)
        status, body = await caller.post("result")
        assert (status, decode(ResultReply, body)) == (200, ResultReply(stored=True))
        assert len(caller.book.results(KEY)) == 1


# Who may speak


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "guess",
        TOKEN[:-1],
        TOKEN.upper(),
        run_token(OPERATOR_KEY, "another run"),
        run_token(b"another operator's key", RUN_UID),
    ],
)
async def test_without_the_runs_token_nothing_is_said(message: str, token: str | None) -> None:
    async with inbox() as caller:
        status, body = await caller.post(message, token=token)
        assert (status, body) == (401, b"wrong token for this run")
        assert caller.book.views() == {}


async def test_a_token_that_is_no_utf_8_is_wrong_and_not_an_error_of_ours() -> None:
    async with inbox() as caller:
        reader, writer = await asyncio.open_connection(caller.client.host, caller.client.port)
        body = encode(register())
        writer.write(
            b"POST /v1/register HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()


@pytest.mark.parametrize("token", ["guess", TOKEN])
async def test_no_token_is_in_an_answer_or_a_log(
    token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    async with inbox() as caller:
        answers = [
            await caller.post("wait", token=token),
            await caller.post("register", body=b"{}", token=token),
            await caller.post("register", token=token),
            await caller.post("progress", token=token),
        ]
        exposition = caller.metrics.render().decode()
    for secret in (TOKEN, "guess", OPERATOR_KEY.decode()):
        assert all(secret.encode() not in body for _, body in answers)
        assert secret not in caplog.text
        assert secret not in exposition


# What is refused, and what the worker makes of it


@pytest.mark.parametrize("message", MESSAGES)
async def test_503_while_the_run_has_no_driver_here(message: str) -> None:
    async with inbox(books={}) as caller:
        assert (await caller.post(message))[0] == 503


@pytest.mark.parametrize("message", MESSAGES)
async def test_503_while_its_driver_has_not_looked_at_it(message: str) -> None:
    books = {RUN_UID: AttemptBook(FakeClock(), lambda: None)}
    async with inbox(books=books) as caller:
        assert (await caller.post(message))[0] == 503


@pytest.mark.parametrize("message", ["wait", "progress", "result"])
async def test_404_asks_a_worker_to_register_again(message: str) -> None:
    async with inbox() as caller:
        assert await caller.post(message) == (404, b"register first")


async def test_409_refuses_a_second_pod_of_an_index() -> None:
    async with inbox() as caller:
        await caller.post("register")
        status, body = await caller.post("register", register(pod="another"))
        assert (status, body) == (409, b"another pod holds this index")


@pytest.mark.parametrize("message", MESSAGES)
async def test_410_sends_a_worker_home(message: str) -> None:
    async with inbox() as caller:
        caller.book.expect({TrialKey(1, 0, 1)})
        assert await caller.post(message) == (410, b"this attempt is over")


@pytest.mark.parametrize(
    ("message", "body", "words"),
    [
        ("register", b"{", "Register: not JSON"),
        ("register", b"[]", "Register: [] is no object"),
        ("register", b"{}", "Register: field 'worker' is missing"),
        ("wait", b'{"worker": {}}', "Wait.worker: field 'run_uid' is missing"),
        ("progress", b'{"worker": 1}', "Progress.worker: 1 is no object"),
        ("result", b'{"extra": 1}', "WorkerResult: unknown field 'extra'"),
    ],
)
async def test_400_names_the_field_that_is_wrong(message: str, body: bytes, words: str) -> None:
    async with inbox() as caller:
        status, text = await caller.post(message, body)
        assert status == 400
        assert words in text.decode()


async def test_400_for_a_state_that_no_worker_has() -> None:
    raw = encode(wait()).replace(b'"state":"waiting"', b'"state":"asleep"')
    async with inbox() as caller:
        status, text = await caller.post("wait", raw)
        assert status == 400
        assert "Wait.state: 'asleep'" in text.decode()


async def test_413_for_a_message_above_the_servers_limit() -> None:
    async with inbox() as caller:
        assert (await caller.post("result", b" " * 5000))[0] == 413


async def test_only_posts_to_the_four_routes_are_served() -> None:
    async with inbox() as caller:
        async with caller.client.get("/v1/wait") as response:
            assert response.status == 405
        async with caller.client.post("/v1/stop") as response:
            assert response.status == 404


async def test_every_answer_is_counted_by_message_and_code() -> None:
    async with inbox() as caller:
        await caller.post("register")
        await caller.post("register", token="guess")
        await caller.post("progress")
        await caller.post("wait", b"{}")
        exposition = caller.metrics.render().decode()
    for message, code in (("register", 200), ("register", 401), ("progress", 204), ("wait", 400)):
        line = f'tare_operator_inbox_requests_total{{code="{code}",message="{message}"}} 1.0'
        assert line in exposition
