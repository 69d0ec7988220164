"""The probes and `/metrics` over HTTP, on the port that the workers use too."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp.test_utils import unused_port

from support.clock import FakeClock
from support.context import context_of
from support.memory_cluster import MemoryCluster
from support.workers import KEY, RUN_UID, register, wait
from tare.manifests.secret import run_token
from tare.measure.wire import encode
from tare.runtime.book import AttemptBook
from tare.runtime.inbox import Inbox
from tare.runtime.server import Health, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tare.runtime.context import Context


@pytest.fixture
def context() -> Context:
    return context_of(MemoryCluster(), FakeClock())


@asynccontextmanager
async def operator(context: Context, health: Health) -> AsyncIterator[aiohttp.ClientSession]:
    """The operator's server, and a client that knows where it listens."""
    settings = replace(context.settings, port=unused_port())
    inbox = Inbox(context.books, settings.operator_key, context.metrics)
    base = f"http://{settings.host}:{settings.port}"
    async with (
        serve(settings, inbox, context.metrics, health),
        aiohttp.ClientSession(base) as session,
    ):
        yield session


async def answer(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


def health(*missing: str, overdue: tuple[str, ...] = ()) -> Health:
    return Health(lambda: list(overdue), missing)


async def test_an_operator_that_has_listed_everything_is_ready_and_healthy(
    context: Context,
) -> None:
    async with operator(context, health()) as session:
        assert await answer(session, "/healthz") == (200, "ok\n")
        assert await answer(session, "/readyz") == (200, "ok\n")


async def test_it_is_not_ready_until_each_watched_resource_was_listed_once(
    context: Context,
) -> None:
    found = health("benchmarkruns", "jobs", "pods")
    async with operator(context, found) as session:
        found.listed("jobs")
        status, text = await answer(session, "/readyz")
        assert status == 503
        assert text == (
            "not listed yet: benchmarkruns, pods; is the right to list and watch there?\n"
        )
        assert (await answer(session, "/healthz"))[0] == 200
        found.listed("benchmarkruns")
        found.listed("pods")
        found.listed("pods")
        assert (await answer(session, "/readyz"))[0] == 200


async def test_a_driver_that_hangs_makes_the_process_unhealthy_by_name(context: Context) -> None:
    async with operator(context, health(overdue=("qwen", "llama"))) as session:
        assert await answer(session, "/healthz") == (
            500,
            "no pass for too long: qwen, llama\n",
        )
        assert (await answer(session, "/readyz"))[0] == 200


async def test_metrics_are_served_as_prometheus_reads_them(context: Context) -> None:
    async with operator(context, health()) as session, session.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert "tare_operator_workers_connected 0.0" in await response.text()


async def test_a_worker_that_goes_away_is_not_connected_any_more(context: Context) -> None:
    book = context.books[RUN_UID] = AttemptBook(context.clock, lambda: None)
    book.expect({KEY})
    book.register(register())
    token = run_token(context.settings.operator_key, RUN_UID)

    async def ask(session: aiohttp.ClientSession) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        await session.post("/v1/wait", data=encode(wait()), headers=headers)

    async with operator(context, health()) as session:
        held = asyncio.create_task(ask(session))
        await until(lambda: book.connected == 1)
        held.cancel()
        await until(lambda: book.connected == 0)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, a second at most."""
    async with asyncio.timeout(1):
        while not holds():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.001)
