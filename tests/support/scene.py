"""A run under way on an embedded cluster, for tests in which something breaks meanwhile.

The model servers and the stored results are the judges of how it ended: not what the status says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp

from support.bed import Bed, Server, eventually, manifest
from support.embedded import Embedded
from tare.api import names
from tare.kube.port import CONFIG_MAP, POD, RUN
from tare.manifests.metadata import Owner
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tare.kube.port import Document

__all__ = ["PROFILING", "SERVERS", "WARMUP", "Scene"]

WARMUP, PROFILING = 4, 8
"""Requests of the two phases of a cell."""
SERVERS = ("--itl", "40ms", "--ttft-overhead", "1ms")
"""Each phase lasts a third of a second on two of these."""


@dataclass(kw_only=True)
class Scene:
    """One run with its servers."""

    bed: Bed
    own: Embedded
    namespace: str
    servers: Sequence[Server]
    broken: ExitStack = field(default_factory=ExitStack)
    """What `heal` mends."""
    cells: int = 1

    async def workers(self) -> list[Document]:
        """Pods of the run."""
        labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
        return await self.bed.cluster.list(POD, self.namespace, labels=labels)

    async def submit(
        self,
        *,
        cells: int = 1,
        concurrency: int = 4,
        requests: int = PROFILING,
        start_timeout: float = 60,
        **endpoint: Any,
    ) -> Document:
        """Create the run: in each cell a reset, a warm-up, the profiler around profiling."""
        self.cells = cells
        lengths = [32 * (cell + 1) for cell in range(cells)]
        document = manifest(sweep={"grid": {"dataset.prompts.isl": lengths}})
        spec = document["spec"]
        spec["endpoint"] |= {"resetKvCache": True, "serverProfiler": True, **endpoint}
        spec["workers"] |= {"startTimeoutSeconds": start_timeout}
        warmup, profiling = spec["phases"]
        warmup |= {"requests": WARMUP}
        profiling |= {"requests": requests, "concurrency": concurrency}
        return await self.bed.submit(self.namespace, document)

    async def patch(self, **spec: Any) -> None:
        """Change the run as a user does."""
        await self.bed.cluster.patch(RUN, self.namespace, "run", {"spec": spec})

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a moment that may be short."""
        log = self.bed.operator.log
        await eventually(holds, 20, lambda: log.read_text()[-3000:], every=0.01)

    async def until_total(self, count: str, least: int) -> None:
        """Wait until the servers together have counted so many."""

        async def reached() -> bool:
            return await self.total(count) >= least

        await self.until(reached)

    async def until_all_run(self, phase: int) -> None:
        """Wait until every worker of the first cell has passed the gate of a phase."""
        base = f"{self.own.devcluster.url}/api/v1/namespaces/{self.namespace}/pods"

        async def passed() -> bool:
            async with aiohttp.ClientSession() as session:
                logs = []
                for pod in await self.workers():
                    if pod["metadata"]["labels"][names.LABEL_CELL] != "0":
                        continue  # Of the next one, started ahead.
                    async with session.get(f"{base}/{pod['metadata']['name']}/log") as answer:
                        logs.append(await answer.text())
            # One without a share of the load has drained at once.
            told = re.compile(f"phase {phase}: (running|drained)")
            return bool(logs) and all(map(told.search, logs))

        await self.until(passed)

    async def until_served(self, point: str, by: Callable[[Iterable[bool]], bool] = all) -> None:
        """Wait until every server, or any, has shown its fault."""

        async def shown() -> bool:
            return by([point in counters["faults_served"] for counters in await self.counters()])

        await self.until(shown)

    async def break_servers(self, **faults: Any) -> None:
        """Switch faults on at every server."""
        for server in self.servers:
            await server.faults(**faults)

    async def heal(self) -> None:
        """Take every fault away."""
        self.broken.close()
        self.own.devcluster.faults.clear()
        await self.break_servers(chat=None, reset=None, start_profile=None, stop_profile=None)

    async def restart(self) -> None:
        """Start the operator that was killed."""
        await self.heal()
        self.bed.operator.start()
        await self.bed.operator.ready()

    async def counters(self) -> list[dict[str, Any]]:
        """What each server counted."""
        return [await server.counters() for server in self.servers]

    async def total(self, count: str) -> int:
        """What the servers counted together."""
        return sum(counters[count] for counters in await self.counters())

    async def load(self) -> int:
        """Requests of load and probes; the canaries around a reset are completions."""
        asked = [r["path"] for server in self.servers for r in await server.requests()]
        return asked.count("/v1/chat/completions")

    async def ends_well(self, *, crashes: int = 0, attempt: int = 1) -> None:
        """Every cell is measured once and whole, and no profiler is left on.

        `attempt` is the one by which the first cell was measured. An attempt that is given up
        before its profiling phase has sent its warm-up.
        """
        await self.measures_once(crashes=crashes, attempt=attempt)
        whole = self.cells * (WARMUP + PROFILING)
        sent = await self.load() - (attempt - 1) * WARMUP
        # One probe of the preflight in each cell, and one more where it had to be repeated.
        assert whole + self.cells <= sent <= whole + self.cells + crashes

    async def measures_once(self, *, crashes: int = 0, attempt: int = 1) -> None:
        """Every cell has one whole result, and no profiler is left on."""
        status = await self.bed.finished(self.namespace)
        assert status["phase"] == "Succeeded", status
        await self._profilers_are_off(crashes)
        trials = await self.trials()
        attempts = {(cell, 0): attempt if cell == 0 else 1 for cell in range(self.cells)}
        assert {key: record.attempt for key, record in trials.items()} == attempts
        for record in trials.values():
            assert record.summary is not None
            issued = {phase.name: phase.counts["issued"] for phase in record.summary.phases}
            assert issued == {"warmup": WARMUP, "profiling": PROFILING}

    async def trials(self) -> dict[tuple[int, int], Any]:
        """The stored records; no trial has two."""
        run = await self.bed.run(self.namespace)
        metadata = run["metadata"]
        owner = Owner(name="run", namespace=self.namespace, uid=metadata["uid"])
        labels = {names.LABEL_COMPONENT: "trial-result"}
        maps = await self.bed.cluster.list(CONFIG_MAP, self.namespace, labels=labels)
        found = [m["metadata"]["labels"] for m in maps]
        results = Counter((item[names.LABEL_CELL], item[names.LABEL_TRIAL]) for item in found)
        assert set(results.values()) <= {1}, "a trial has two results"
        trials = await ResultStore(self.bed.cluster).load_trials(owner)
        return {key: document.record for key, document in trials.items()}

    async def _profilers_are_off(self, crashes: int) -> None:
        for counters in await self.counters():
            starts, stops = counters["profiler_starts"], counters["profiler_stops"]
            assert not counters["profiler_running"]
            assert counters["profiler_starts_refused"] == 0
            assert self.cells <= starts <= stops <= starts + crashes
