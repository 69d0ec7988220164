"""Public bug cases of group D: HTTP client and network, and the cases on the shape of the load.

Numbers and wanted values: reference/bug-cases.md. B67 and B69 run ten times as fast here; B67 runs
with its own times on an injected clock in tests/unit/worker/test_phase.py. Of B63 and B65 the part
of hooks and discovery stands in tests/unit/endpoint and tests/unit/runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, linear_regression, stdev
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from support.events import normal
from support.expect import is_normal
from support.load import (
    ask_server,
    closed_loop,
    histogram,
    milliseconds,
    open_loop,
    pool_of,
    run_load,
    run_workers,
    work_order,
)
from support.scripted import Script, ScriptedServer, Seen
from support.server_process import server_process
from tare.api.names import ENV_AUTHORITY
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.preflight import Target, preflight
from tare.measure.counts import Count
from tare.measure.histogram import Histogram
from tare.measure.merge import merge_phases
from tare.measure.rows import read_rows
from tare.measure.trial import summarize
from tare.net.origin import Origin, parse_base_url
from tare.net.tls import client_context
from tare.plan.order import DatasetOrder, Lengths, TargetOrder, TlsOrder, WorkOrder
from tare.telemetry.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.certificates import Certificate

QUICK = Script(writes=[(0, data) for _, data in normal()])
HOST = "qwen.bench.svc"
MS = 1_000_000


def prompts(server: ScriptedServer) -> list[str]:
    """Prompts in the order in which the server saw them."""
    return [seen.json["messages"][0]["content"] for seen in server.requests]


def test_b58_no_pool_limits_the_concurrency() -> None:
    streams = 500
    script = Script(writes=[(1000, data) for _, data in normal()])
    with server_process(script) as server:
        order = WorkOrder(
            run="b58",
            namespace="bench",
            run_uid="uid",
            cell=0,
            trial=0,
            attempt=0,
            workers=1,
            target=TargetOrder(urls=(server.url,), model="m"),
            dataset=DatasetOrder(entries=streams, isl=Lengths(value=16), osl=Lengths(value=3)),
            phases=(closed_loop(requests=streams, concurrency=streams),),
        )
        (phase,) = uvloop.run(run_load(order)).phases
        assert server.peak() == streams
        own = Histogram()
        for delay in server.first_writes():
            own.record(delay)
    assert phase.counts[Count.OK] == streams
    # The server counts from its own read; what it read late is in the difference too.
    added = (histogram(phase, "time_to_first_token").percentile(99) or 0) - (own.maximum or 0)
    assert added <= 300 * MS  # Half of the requests would wait a second in a queue.


async def test_b60_addresses_are_sent_to_in_turn_and_counted() -> None:
    one, two = ScriptedServer(QUICK), ScriptedServer(QUICK, host="127.0.0.2")
    async with one, two:
        phase = closed_loop(requests=400, concurrency=20)
        result = await run_load(work_order(one, two, phases=(phase,), entries=400))
        counts = {one.url: len(one.requests), two.url: len(two.requests)}
    assert result.phases[0].endpoints == counts
    assert all(160 <= count <= 240 for count in counts.values())


async def test_b62_a_client_without_ports_is_no_failing_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    connect, asked = loop.create_connection, iter(range(10**6))

    async def exhausted_now_and_then(*arguments: Any, **more: Any) -> Any:
        if next(asked) % 20 == 19:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return await connect(*arguments, **more)

    closing = Script(writes=QUICK.writes, framing="until_close")
    async with ScriptedServer(closing) as server:
        order = work_order(server, phases=(closed_loop(requests=100, concurrency=1),))
        monkeypatch.setattr(loop, "create_connection", exhausted_now_and_then)
        result = await run_load(order)
    (phase,) = result.phases
    assert phase.errors == {"client_exhausted": 5}
    assert "assign requested address" in phase.error_samples["client_exhausted"]
    concerns = summarize([result], goodput={}, cost=None).concerns
    (concern,) = [c for c in concerns if c.reason is Reason.CLIENT_SATURATED]
    assert "5 requests failed" in concern.message


async def test_b63_a_certificate_that_nobody_trusts_is_named_at_once(
    certificate: Certificate,
) -> None:
    async with ScriptedServer(QUICK, tls=certificate.server()) as server, ControlClient() as http:
        order = TargetOrder(urls=(server.url,), host=HOST, model="m")

        async def find() -> Target:
            return Target(order=order, headers={})

        report = await asyncio.wait_for(
            preflight(find, ready_timeout=600, http=http, clock=SystemClock(), tell=lambda _: None),
            10,
        )
        phase = closed_loop(requests=2)
        result = await run_load(work_order(server, phases=(phase,), target={"host": HOST}))
    assert (report.ok, report.final) == (False, True)
    assert "certificate" in report.message
    assert result.phases[0].errors == {"tls": 2}
    assert "certificate" in result.phases[0].error_samples["tls"]


@pytest.mark.parametrize("trust", ["any", "authority"])
async def test_b63_with_tls_settings_the_record_is_the_normal_one(
    certificate: Certificate, trust: str
) -> None:
    authority = certificate.cert.read_text() if trust == "authority" else None
    tls = client_context(authority=authority, verify=trust == "authority")
    async with ScriptedServer(Script(writes=normal()), tls=certificate.server()) as server:
        name = HOST if trust == "authority" else None
        is_normal(await ask_server(server, pool=pool_of(server, tls=tls, server_name=name)))


async def test_b63_an_order_says_how_to_trust(certificate: Certificate) -> None:
    authority = {ENV_AUTHORITY: certificate.cert.read_text()}
    async with ScriptedServer(QUICK, tls=certificate.server()) as server:
        for tls in (TlsOrder(authority_env=ENV_AUTHORITY), TlsOrder(verify=False)):
            target = {"tls": tls, "host": HOST}
            order = work_order(server, phases=(closed_loop(requests=3),), target=target)
            result = await run_load(order, environ=authority)
            assert result.phases[0].counts[Count.OK] == 3
        assert {seen.headers["host"] for seen in server.requests} == {HOST}


class _SlowDoor:
    """In front of a server: every connection waits before it is let through."""

    def __init__(self, server: ScriptedServer, seconds: float) -> None:
        self.opened = 0
        self.url = ""
        self._server = server
        self._seconds = seconds

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        await asyncio.sleep(self._seconds)
        with contextlib.suppress(ConnectionError):
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._server.port)
            await asyncio.gather(_copy(reader, ours), _copy(theirs, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@contextlib.asynccontextmanager
async def slow_door(server: ScriptedServer, seconds: float) -> AsyncIterator[_SlowDoor]:
    door = _SlowDoor(server, seconds)
    async with await asyncio.start_server(door.pass_on, "127.0.0.1", 0) as listener:
        door.url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield door


async def test_b64_no_handshake_is_in_a_latency(certificate: Certificate) -> None:
    script = Script(writes=normal())
    async with (
        ScriptedServer(script, tls=certificate.server()) as server,
        slow_door(server, 0.3) as door,
    ):
        before = replace(closed_loop(requests=20, concurrency=20), name="warmup", kind="warmup")
        phases = (before, closed_loop(requests=60, concurrency=20))
        target = {"tls": TlsOrder(verify=False), "urls": (door.url,)}
        result = await run_load(work_order(phases=phases, target=target))
        opened = door.opened
    warmup, profiling = result.phases
    assert (warmup.counts[Count.OK], profiling.counts[Count.OK]) == (20, 60)
    assert (opened, profiling.connections_opened) == (20, 0)
    p99 = milliseconds(histogram(profiling, "time_to_first_token").percentile(99))
    assert p99 is not None
    assert p99 < 300  # A first text after 100 ms; with a handshake it came after 400.


async def test_b65_an_ipv6_literal_is_a_target() -> None:
    try:
        server = await ScriptedServer(QUICK, host="::1").__aenter__()
    except OSError:
        pytest.skip("this machine has no IPv6")
    try:
        assert server.url == f"http://[::1]:{server.port}"
        base = parse_base_url(f"{server.url}/v1")
        assert (base.origin.host, base.prefix) == ("::1", "")
        result = await run_load(work_order(server, phases=(closed_loop(requests=3),)))
        assert result.phases[0].counts[Count.OK] == 3
        assert server.requests[0].headers["host"] == f"[::1]:{server.port}"
    finally:
        await server.__aexit__(None, None, None)


def test_b65_an_address_of_a_slice_is_written_with_brackets() -> None:
    assert str(Origin(scheme="http", host="fd00::12", port=8000)) == "http://[fd00::12]:8000"


async def test_b67_a_pause_of_the_server_shows_in_the_latency_from_due() -> None:
    began: list[int] = []

    def freeze_from_half_a_second(seen: Seen) -> Script:
        began.append(seen.read_at)
        since = (seen.read_at - began[0]) / MS
        wait = 1000 - since if 500 <= since < 1000 else 1
        return Script(writes=[(wait, data) for _, data in normal()])

    async with ScriptedServer(freeze_from_half_a_second) as server:
        phase = open_loop(100.0, duration=2.0, max_concurrency=1)
        result = await run_load(work_order(server, phases=(phase,), entries=200))
    (measured,) = result.phases
    assert measured.counts[Count.OK] == 200

    def percentile(metric: str, percent: float) -> float:
        return (histogram(measured, metric).percentile(percent) or 0) / 1e6

    from_due = [percentile("request_latency_from_due", p) for p in (50, 90, 99)]
    assert from_due[0] < 100
    assert from_due[1:] == pytest.approx([320, 480], abs=80)
    assert percentile("request_latency", 90) < 50
    assert percentile("request_latency", 100) == pytest.approx(500, abs=80)
    assert percentile("schedule_lag", 100) == pytest.approx(490, abs=80)
    assert percentile("send_lag", 50) < 10  # The client itself was on time.


async def test_b69_four_workers_are_one_plan() -> None:
    async with ScriptedServer(QUICK) as server:
        phase = open_loop(400.0, requests=400)
        order = work_order(server, phases=(phase,), entries=400, workers=4)
        (whole,) = merge_phases(await run_workers(order))
        moments = sorted(seen.read_at for seen in server.requests)
        first = prompts(server)
        server.requests.clear()
        await run_workers(order)
        again = prompts(server)
    assert whole.counts[Count.OK] == len(set(first)) == 400
    assert sorted(first) == sorted(again)
    # The slope over all of them: a machine that stalls for a moment changes no rate.
    gap = linear_regression(range(400), moments).slope
    assert 1e9 / gap == pytest.approx(400, rel=0.02)


async def test_b69_four_workers_with_one_seed_are_one_poisson_process() -> None:
    phase = open_loop(2000.0, type="poisson", requests=4000, seed=1)
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(phase,), entries=400, workers=4)
        (whole,) = merge_phases(await run_workers(order))
    rows = list(read_rows(whole.rows))
    gaps = [after.due - before.due for before, after in pairwise(rows)]
    assert [row.number for row in rows] == list(range(4000))
    # Five standard errors of so few gaps; tests/unit/plan/test_schedule.py looks at many more.
    assert fmean(gaps) == pytest.approx(500, rel=0.08)
    assert stdev(gaps) / fmean(gaps) == pytest.approx(1, abs=0.08)
    assert all(row.lag is not None and row.lag >= 0 for row in rows)  # Never early.


async def test_b119_goodput_divides_by_everything_that_was_issued() -> None:
    slow = Script(writes=[(250, data) for _, data in normal()])
    refused = Script.json({"error": "no"}, status=500)
    scripts = [QUICK] * 5 + [slow] * 2 + [refused] * 3
    asked = iter(range(1000))
    async with ScriptedServer(lambda _: scripts[next(asked) % 10]) as server:
        phase = open_loop(100.0, duration=1.0)
        limits = {"request_latency": 0.15}
        result = await run_load(work_order(server, phases=(phase,), goodput=limits))
    metrics = summarize([result], goodput=limits, cost=None).metrics
    assert metrics["good_request_fraction"]["mean"] == pytest.approx(0.5)
    assert metrics["goodput"]["mean"] == pytest.approx(50)
