"""A reset is proven by a prompt that was known before it and is new after it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.fleet import fleet, replicas_of
from support.scripted_http import Reply, ScriptedServer, json_reply
from support.silent import SilentNetwork
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.hooks.canary import Canary, canary_text, prove
from tare.endpoint.hooks.reset import reset
from tare.measure.hooks import CallOutcome, HookKind, HookReport, Replica, Replicas

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tare.endpoint.client import Control

RESET, TEXT, CHAT = "/reset_prefix_cache", "/v1/completions", "/v1/chat/completions"
YES, NO = json_reply({"success": True}), json_reply({"success": False})
KEY = {"Authorization": "Bearer sk-secret-1"}


def usage(cached: int | None) -> Reply:
    """An answer that tells the cached tokens, or does not."""
    details = None if cached is None else {"cached_tokens": cached}
    return json_reply({"usage": {"prompt_tokens": 231, "prompt_tokens_details": details}})


HONEST = (usage(0), usage(224), usage(0))


async def run(
    servers: list[ScriptedServer],
    *,
    mark: str = "m",
    external: Callable[[Replica], Awaitable[float | None]] | None = None,
    http: Control | None = None,
    replicas: Replicas | None = None,
) -> HookReport:
    replicas = replicas or replicas_of(servers)
    clock = FakeClock()
    async with ControlClient() as client:
        common: dict[str, Any] = {
            "headers": KEY,
            "host": replicas.service_host,
            "http": http or client,
            "clock": clock,
        }
        canary = Canary(text=canary_text(mark), model="m", timeout=30, **common)
        send = partial(
            reset, replicas, path=RESET, timeout=30, max_retry=5, server="vllm", **common
        )
        return await prove(replicas, send, canary=canary, external_hits=external)


async def test_a_prompt_that_is_new_again_proves_the_reset_on_each_replica() -> None:
    async with fleet(2) as servers:
        for server in servers:
            server.on(RESET, YES).on(TEXT, *HONEST)
        report = await run(servers)
        asked = [[request.path for request in server.requests] for server in servers]
    assert asked == [[TEXT, TEXT, RESET, TEXT]] * 2
    assert report.ok
    assert report.proven
    assert report.message == "KV cache reset confirmed by 2 of 2 replicas, and proven by a canary"
    canaries = [row for row in report.calls if row.hook is HookKind.CANARY]
    assert [(row.replica, row.attempt, row.message) for row in canaries[:3]] == [
        ("qwen-0", 1, "0 tokens were cached"),
        ("qwen-0", 2, "224 tokens were cached"),
        ("qwen-0", 3, "0 tokens were cached"),
    ]
    assert {row.outcome for row in canaries} == {CallOutcome.CONFIRMED}


async def test_an_empty_answer_is_proven_as_well() -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, Reply()).on(TEXT, *HONEST)
        report = await run(servers)
    assert report.proven
    assert not report.verified


async def test_a_server_that_leaves_zero_out_is_understood() -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, usage(None), usage(224), usage(None))
        report = await run(servers)
    assert report.proven


async def test_a_replica_that_says_yes_and_keeps_its_cache_refutes_the_reset() -> None:
    async with fleet(2) as servers:
        servers[0].on(RESET, YES).on(TEXT, *HONEST)
        servers[1].on(RESET, YES).on(TEXT, usage(0), usage(224), usage(224))
        report = await run(servers)
    assert not report.ok
    assert not report.proven
    assert report.reason is Reason.RESET_INCOMPLETE
    assert "qwen-1 still found 224 of 224 tokens" in report.message
    assert "qwen-0" not in report.message


async def test_a_check_that_could_not_fail_leaves_the_reset_unverified() -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, usage(0))
        report = await run(servers)
        asked = len(servers[0].calls(TEXT))
    assert (report.ok, report.verified, report.proven) == (True, False, False)
    assert "cannot be proven: qwen-0 finds no cached tokens" in report.message
    assert asked == 2, "a third one would show nothing"


async def test_a_server_that_reports_no_cached_tokens_is_believed() -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, usage(None))
        report = await run(servers)
    assert (report.ok, report.verified, report.proven) == (True, True, False)
    assert "not proven (qwen-0: it reports no cached tokens)" in report.message


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_without_completions_the_canary_is_the_system_message_of_a_chat(status: int) -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, Reply(status=status)).on(CHAT, *HONEST)
        report = await run(servers)
        bodies = [request.json() for request in servers[0].calls(CHAT)]
    assert report.proven
    assert [message["role"] for message in bodies[0]["messages"]] == ["system", "user"]
    assert bodies[0]["messages"][0]["content"] == canary_text("m")
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_a_canary_that_is_refused_leaves_the_servers_word(status: int) -> None:
    async with fleet(1) as servers:
        refused = Reply(status=status, body=b"not with sk-secret-1")
        servers[0].on(RESET, YES).on(TEXT, refused)
        report = await run(servers)
    assert (report.ok, report.verified, report.proven) == (True, True, False)
    assert f"the canary failed: {status}" in report.message
    assert "sk-secret-1" not in repr(report)


async def test_a_canary_that_fails_after_the_reset_proves_nothing() -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, usage(0), usage(224), Reply(status=500))
        report = await run(servers)
    assert (report.ok, report.verified, report.proven) == (True, True, False)


async def test_a_reset_that_fails_is_followed_by_no_canary() -> None:
    async with fleet(1) as servers:
        servers[0].on(RESET, NO).on(TEXT, *HONEST)
        report = await run(servers)
        asked = len(servers[0].calls(TEXT))
    assert not report.ok
    assert report.reason is Reason.RESET_REFUSED
    assert asked == 2


async def test_a_silent_server_is_waited_for_ten_seconds_and_not_asked_again() -> None:
    clock = FakeClock()
    network = SilentNetwork(clock)
    replica = Replica(uid="u", name="qwen-0", origin="http://10.0.0.1:8000")
    canary = Canary(
        text="x", model="m", headers={}, host=None, http=network, clock=clock, timeout=30
    )

    async def done() -> HookReport:
        return HookReport(
            hook=HookKind.RESET,
            ok=True,
            verified=True,
            reason=None,
            message="done",
            replicas=("u",),
            calls=(),
        )

    report = await prove(Replicas(ready=(replica,)), done, canary=canary)
    assert clock.now() == 10 * len(network.urls)
    assert len(network.urls) == 1
    assert "not proven (qwen-0: the canary failed" in report.message


async def test_b71_tokens_from_behind_the_connector_are_a_warning_with_their_number() -> None:
    hits = iter([5_000.0, 6_024.0])

    async def external(_: Replica) -> float | None:
        return next(hits)

    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, usage(0), usage(224), usage(224))
        report = await run(servers, external=external)
    assert (report.ok, report.verified, report.proven) == (True, False, False)
    assert report.reason is Reason.RESET_INCOMPLETE
    assert "qwen-0 took 1024 tokens from it" in report.message


async def test_b71_the_counters_tell_also_where_the_answers_do_not() -> None:
    hits = iter([0.0, 1_024.0])

    async def external(_: Replica) -> float | None:
        return next(hits)

    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, usage(None))
        report = await run(servers, external=external)
    assert report.reason is Reason.RESET_INCOMPLETE


async def test_b71_a_server_without_such_counters_is_judged_by_its_answers() -> None:
    async def external(_: Replica) -> float | None:
        return None

    async with fleet(1) as servers:
        servers[0].on(RESET, YES).on(TEXT, *HONEST)
        report = await run(servers, external=external)
    assert report.proven


def test_the_text_is_the_same_for_one_reset_and_another_from_the_first_word_for_others() -> None:
    marks = [f"uid/{cell}/{trial}/1/-1" for cell in range(5) for trial in range(5)]
    texts = [canary_text(mark).split() for mark in marks]
    assert canary_text(marks[0]).split() == texts[0]
    assert all(len(words) >= 3 * 64 for words in texts)
    # No two share a block: they differ within the sixteen tokens of the smallest one.
    assert all(one[:16] != other[:16] for one, other in pairwise(sorted(texts)))


async def test_a_hundred_replicas_are_asked_together_at_every_step() -> None:
    """Each step is answered only when all hundred wait for it, so none waits for another."""
    async with fleet(100) as servers:
        steps = [asyncio.Barrier(100) for _ in range(4)]
        first, second, third = (
            replace(answer, together=step) for answer, step in zip(HONEST, steps, strict=False)
        )
        for server in servers:
            server.on(RESET, replace(YES, together=steps[3])).on(TEXT, first, second, third)
        report = await run(servers)
    assert report.proven
    assert report.message.startswith("KV cache reset confirmed by 100 of 100 replicas")
    assert len(report.calls) == 100 * 4
