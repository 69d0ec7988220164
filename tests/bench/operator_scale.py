"""Fifty runs of eight workers: what does one operator process need for them?

The operator is a process of its own; cluster, workers and model servers are stubs in this one, so
that the numbers are those of the operator and of the machine. The bounds are meant for two idle
cores. Beside the numbers stands what plain operations cost here and now, and what else ran.

    PYTHONPATH=tests .venv/bin/python -m bench.operator_scale

Exit code 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import uvloop

from bench.measured_operator import buckets, quantile, used
from bench.operator_load import MIB, Load, Measured, share_below
from bench.references import (
    Reference,
    empty_patch,
    median_seconds,
    refused_post,
    timed_meanwhile,
)
from bench.stubs import Commands, StubWorkers, serve_targets
from support.bed import CRD, WORKER_IMAGE, OperatorProcess
from tare.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from tare.devcluster.apiserver.server import AuditEntry

_AGENT = "tare-bench"
_NAMESPACE = "bench"
_RUNS = f"/apis/tare.dev/v1alpha1/namespaces/{_NAMESPACE}/benchmarkruns"
_SPREAD = 5.0
_PATIENCE = 120.0
"""Seconds after which runs that do not end are given up."""


class Bench:
    """A cluster, an operator and as many targets as there are runs."""

    def __init__(
        self,
        cluster: DevCluster,
        operator: OperatorProcess,
        targets: Sequence[str],
        session: aiohttp.ClientSession,
        commands: Commands,
    ) -> None:
        self._cluster = cluster
        self._operator = operator
        self._targets = targets
        self._session = session
        self._commands = commands
        self._runs = f"{cluster.url}{_RUNS}"

    @classmethod
    @asynccontextmanager
    async def open(cls, runs: int, python: Sequence[str]) -> AsyncIterator[Bench]:
        """Start everything, and wait for the operator."""
        workers = StubWorkers()
        runners = {WORKER_IMAGE: workers}
        with (
            tempfile.TemporaryDirectory() as folder,
            DevCluster(crds=[CRD], runners=runners, cpus=10_000) as cluster,
        ):
            kubeconfig = cluster.write_kubeconfig(Path(folder) / "kubeconfig")
            allowed = ["http://127.0.0.1"]
            operator = OperatorProcess(
                kubeconfig, Path(folder), allowed_targets=allowed, python=python
            )
            async with serve_targets(runs) as targets, _session() as session:
                operator.start()
                try:
                    await operator.ready()
                    yield cls(cluster, operator, targets, session, workers.commands)
                finally:
                    operator.terminate()
                    _print_complaints(operator.log)

    async def measure(self, load: Load) -> Measured:
        """Create the runs at once and wait for their ends."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        await self._create(f"{self._cluster.url}/api/v1/namespaces", namespace)
        post = refused_post(self._session, self._operator.url)
        post_before = await median_seconds(post)
        idle, seen = used(self._operator.pid), len(self._cluster.requests)
        async with timed_meanwhile(post) as busy_posts:
            seconds = await self._run(load)
        end = used(self._operator.pid)
        requests = self._cluster.requests[seen:]
        exposition = await self._metrics()
        decisions = buckets(exposition, "tare_operator_decision_seconds")
        reactions = buckets(exposition, "tare_operator_reaction_seconds")
        return Measured(
            load=load,
            seconds=seconds,
            delays=self._commands.delays(*load.commands),
            passes=decisions[-1][1],
            reaction_p50=quantile(reactions, 0.5),
            reaction_p99=quantile(reactions, 0.99),
            decision_p50=quantile(decisions, 0.5),
            decision_p99=quantile(decisions, 0.99),
            idle=idle,
            end=end,
            requests=_count(requests),
            reference=Reference(
                post=post_before,
                busy_post=share_below(sorted(busy_posts), 0.99),
                patch=await median_seconds(empty_patch(self._session, f"{self._runs}/run-0")),
            ),
        )

    async def _run(self, load: Load) -> float:
        """Seconds from the last create to the end of the last run."""
        async with asyncio.timeout(_PATIENCE), asyncio.TaskGroup() as group:
            watching = group.create_task(self._until_finished(load.runs))
            pause = load.spread / load.runs
            await asyncio.gather(
                *(
                    self._create_later(n * pause, load.manifest(n, self._targets[n]))
                    for n in range(load.runs)
                )
            )
            created = time.monotonic()
        return watching.result() - created

    async def _until_finished(self, runs: int) -> float:
        """Watch until all runs have succeeded; the moment at which the last one did."""
        finished: set[str] = set()
        async with self._session.get(self._runs, params={"watch": "true"}) as response:
            while len(finished) < runs:
                document = json.loads(await response.content.readuntil(b"\n"))["object"]
                status = document.get("status") or {}
                if "finishTime" in status:
                    assert status["phase"] == "Succeeded", json.dumps(status, indent=2)
                    finished.add(document["metadata"]["name"])
        return time.monotonic()

    async def _create_later(self, seconds: float, body: Any) -> None:
        await asyncio.sleep(seconds)
        await self._create(self._runs, body)

    async def _create(self, url: str, body: Any) -> None:
        async with self._session.post(url, json=body) as response:
            assert response.status == 201, await response.text()

    async def _metrics(self) -> str:
        async with self._session.get(f"{self._operator.url}/metrics") as response:
            return await response.text()


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers={"User-Agent": _AGENT}, read_bufsize=MIB)


def _count(entries: Sequence[AuditEntry]) -> Counter[str]:
    """Count the operator's requests by verb and resource."""
    return Counter(_request(entry) for entry in entries if entry.user_agent != _AGENT)


def _request(entry: AuditEntry) -> str:
    path, _, query = entry.path.partition("?")
    parts = path.strip("/").split("/")
    parts = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
    verb = entry.method
    if verb == "GET" and len(parts) == 1:
        verb = "WATCH" if "watch=true" in query else "LIST"
    return " ".join([verb, *parts[:1], *parts[2:]])


def _print_complaints(log: Path) -> None:
    """Show what the operator logged beyond the usual."""
    for line in log.read_text().splitlines():
        if '"level": "INFO"' not in line:
            sys.stdout.write(f"  operator: {line[:400]}\n")


def _report(measured: Measured) -> None:
    sys.stdout.write(f"\n{measured.load.title}\n")
    for label, value, remark in _rows(measured):
        sys.stdout.write(f"  {label:31}{value:29}{remark}\n")
    for bound in measured.broken():
        sys.stdout.write(f"  BROKEN: {bound}\n")


def _rows(measured: Measured) -> Iterator[tuple[str, str, str]]:
    """Label, number and remark of each line."""
    runs, reference = measured.load.runs, measured.reference
    cpu, total = measured.cpu_seconds / runs, sum(measured.requests.values())
    p50, p99 = (share_below(measured.delays, share) for share in (0.5, 0.99))
    yield "until all runs have ended", f"{measured.seconds:.2f} s", ""
    yield (
        "last worker's word to command",
        f"p50 {_ms(p50)}, p99 {_ms(p99)}",
        f"a plain POST at the same time: p99 {_ms(reference.busy_post)}",
    )
    yield (
        "news to commands, operator",
        f"p50 {_ms(measured.reaction_p50)}, p99 {_ms(measured.reaction_p99)}",
        "its own histogram: queue, LISTs and the status write included",
    )
    yield (
        "decide()",
        f"p50 {_ms(measured.decision_p50)}, p99 {_ms(measured.decision_p99)}",
        f"{measured.passes / runs:.0f} passes a run",
    )
    yield "operator's CPU", f"{_ms(cpu)} a run", f"{cpu / reference.post:.0f} plain POSTs"
    yield (
        "operator's memory",
        f"peak {measured.end.peak / MIB:.0f} MiB",
        f"{measured.idle.memory / MIB:.0f} MiB before the first run",
    )
    kinds = (f"{n / runs:.1f} {what}" for what, n in measured.requests.most_common())
    yield "API requests", f"{total / runs:.1f} a run", ", ".join(kinds)
    yield (
        "plain POST, empty status patch",
        f"{_ms(reference.post)}, {_ms(reference.patch)}",
        "median, idle",
    )
    yield (
        "busy cores beside the operator",
        f"{measured.others_cores:.1f} of {os.cpu_count()}",
        "stubs, cluster, and whatever else ran",
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


async def _run(load: Load, python: Sequence[str]) -> Measured:
    """Measure one load, on a cluster and an operator of its own."""
    async with Bench.open(load.runs, python) as bench:
        return await bench.measure(load)


def _loads(runs: int, workers: int) -> dict[str, Load]:
    """All loads by their names on the command line."""
    return {
        "plain": Load(runs=runs, workers=workers),
        "hooks": Load(runs=runs, workers=workers, hooks=True),
        "spread": Load(runs=runs, workers=workers, spread=_SPREAD),
    }


def main() -> int:
    """Measure one load after the other."""
    parser = argparse.ArgumentParser(prog="operator_scale", description="Load one operator.")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--only", choices=_loads(1, 1), help="measure only this load")
    parser.add_argument("--profile", metavar="FILE", help="run the operator under cProfile")
    arguments = parser.parse_args()
    python = ("-m", "cProfile", "-o", arguments.profile) if arguments.profile else ()
    # Two threads share this process: neither may hold the other up for long.
    sys.setswitchinterval(0.001)
    gc.freeze()
    gc.set_threshold(100_000)
    fine = True
    for name, load in _loads(arguments.runs, arguments.workers).items():
        if arguments.only in (None, name):
            measured = uvloop.run(_run(load, python))
            _report(measured)
            fine = fine and not measured.broken()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
