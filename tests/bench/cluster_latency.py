"""How long nothing happens: from `kubectl apply` to the load, between two cells, after an end.

On the cluster of KUBECONFIG with the images of `make image`; everything is installed for this and
removed again. Requests are timed by the simulated servers' own stamps, the steps between them by
watches. Nothing else should run on the machine.

    PYTHONPATH=tests .venv/bin/python -m bench.cluster_latency

Exit code 1 when a bound is broken.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.timeline import Timeline, arrivals, shares, timeline
from support.installation import KUBECONFIG, Installation, Space, namespace
from support.one_cell import one_cell, profilers
from support.proxied import Clock, ProxiedServers
from tare.kube.port import CONFIG_MAP, JOB, POD, RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


TRIES = 5
CELLS = 10
WORKERS, REPLICAS = 2, 3
FIRST_TOKENS = 16
"""Tokens that requests of the first cell ask for; each further cell asks for one more."""
QUICK = ("--ttft-overhead=1ms", "--itl=1ms", "--log-requests=100000")
MOST_TO_LOAD = 3.0
MOST_BETWEEN = 0.3
MOST_TO_LAST_REQUEST = 1.0
MOST_TO_STOP = 10.0
Steps = list[tuple[str, float]]


@dataclass(slots=True)
class Bench:
    """Servers, what they stamp, and what is seen of the runs."""

    runs: Space
    servers: ProxiedServers
    clocks: dict[str, Clock]
    line: Timeline

    async def finish(self, name: str) -> None:
        """Wait for the end of a run."""
        await self.line.until(RUN, lambda run: _is(run, name) and _condition(run, "Finished"))

    async def kubectl(self, *arguments: str) -> None:
        """Run a command without holding up the watches."""
        await asyncio.to_thread(self.runs.kubectl, *arguments)

    async def start(self, name: str, **spec: Any) -> None:
        """Apply a run as a user does."""
        plain = {
            "endpoint": {"service": {"name": "qwen", "port": 8000}, "model": "Qwen/Qwen3-8B"},
            "workers": {"replicas": WORKERS},
            "dataset": {"prompts": {"isl": 64, "osl": FIRST_TOKENS}},
        }
        await asyncio.to_thread(self.runs.start_run, name, **(plain | spec))

    async def apply_to_load(self, name: str) -> Steps:
        """One cell without reset and warm-up."""
        began = time.monotonic()
        await self.start(name, **one_cell(concurrency=2, requests=8))
        await self.finish(name)
        load = [at for at, tokens in await self._since(began) if tokens == FIRST_TOKENS]
        first = self.line.first
        return [
            ("", began),
            ("kubectl and API server: the run is there", first(RUN, _named(name), after=began)),
            ("operator: preflight, Job created", first(JOB, _of(name), after=began)),
            ("Job controller, scheduler: all pods have a node", self._placed(name, began)),
            (
                "kubelet, container, worker's start: all are registered",
                first(RUN, lambda run: _is(run, name) and _ready(run), after=began),
            ),
            ("gate: connections, first request at a server", load[0]),
        ]

    async def between_cells(self, name: str) -> list[Steps]:
        """A sweep whose cells differ in the tokens that they ask for."""
        began = time.monotonic()
        lengths = list(range(FIRST_TOKENS, FIRST_TOKENS + CELLS))
        sweep = {"grid": {"dataset.prompts.osl": lengths}}
        await self.start(name, **one_cell(concurrency=2, requests=16) | {"sweep": sweep})
        await self.finish(name)
        seen = await self._since(began)
        return [self._gap(name, seen, cell) for cell in range(CELLS - 1)]

    async def end(self, name: str, *command: str) -> tuple[float, float]:
        """Seconds from a command's return to the last request, and to the last profiler's stop."""
        await self.servers.forget()
        hooks = {"service": {"name": "qwen", "port": 8000}, "model": "Qwen/Qwen3-8B"}
        endpoint = {**hooks, "resetKvCache": True, "serverProfiler": True}
        await self.start(name, **one_cell(concurrency=6, durationSeconds=600), endpoint=endpoint)
        await self.servers.under_load(200)
        await self.kubectl(*command)
        asked = time.monotonic()
        while profilers(await self.servers.counters()) != {(1, 1, False)}:  # noqa: ASYNC110 - pods
            await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        stops = [
            self.clocks[pod].here(counters["profiler_windows"][-1]["stop_ns"])
            for pod, counters in (await self.servers.counters()).items()
        ]
        last = (await arrivals(self.servers, self.clocks))[-1][0]
        return last - asked, max(stops) - asked

    async def _since(self, began: float) -> list[tuple[float, int]]:
        return [each for each in await arrivals(self.servers, self.clocks) if each[0] > began]

    def _placed(self, name: str, began: float) -> float:
        nodes: set[str] = set()
        for sighting in self.line.seen:
            if sighting.kind == POD and sighting.at > began and _of(name)(sighting.object):
                if sighting.object["spec"].get("nodeName"):
                    nodes.add(sighting.object["metadata"]["name"])
                if len(nodes) == WORKERS:
                    return sighting.at
        raise LookupError(f"the pods of {name} never had a node")

    def _gap(self, name: str, seen: Sequence[tuple[float, int]], cell: int) -> Steps:
        """From the last request of a cell to the first one of the next."""
        tokens = FIRST_TOKENS + cell
        last = max(at for at, asked in seen if asked == tokens)
        load = min(at for at, asked in seen if asked == tokens + 1)
        probe = min(at for at, asked in seen if at > last)
        stored = self.line.first(CONFIG_MAP, _trial_of(name, cell), after=last)
        is_next = _at_cell(name, cell + 1)
        return [
            ("", last),
            ("last answer, results handed in, counters read, trial stored", stored),
            ("status: the next trial is begun", self.line.first(RUN, is_next, after=last)),
            ("preflight: its probe at a server", probe),
            ("gate: connections, first request at a server", load),
        ]


def _is(run: dict[str, Any], name: str) -> bool:
    return bool(run["metadata"]["name"] == name)


def _named(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda document: _is(document, name)


def _of(run: str) -> Callable[[dict[str, Any]], bool]:
    return lambda document: document["metadata"].get("labels", {}).get("tare.dev/run") == run


def _trial_of(run: str, cell: int) -> Callable[[dict[str, Any]], bool]:
    def holds(document: dict[str, Any]) -> bool:
        labels = document["metadata"].get("labels", {})
        return _of(run)(document) and labels.get("tare.dev/cell") == str(cell)

    return holds


def _at_cell(name: str, cell: int) -> Callable[[dict[str, Any]], bool]:
    def holds(run: dict[str, Any]) -> bool:
        current = run.get("status", {}).get("current") or {}
        return _is(run, name) and current.get("cell") == cell

    return holds


def _condition(run: dict[str, Any], kind: str) -> bool:
    conditions = run.get("status", {}).get("conditions", ())
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _ready(run: dict[str, Any]) -> bool:
    return _condition(run, "WorkersReady")


async def measure(runs: Space) -> list[str]:
    """Measure and print everything; returns the bounds that are broken."""
    async with (
        ProxiedServers.open(KUBECONFIG, runs.name) as servers,
        timeline(servers.api, runs.name) as line,
    ):
        clocks = {pod: await servers.clock(pod) for pod in await servers.pods()}
        error = max(clock.error for clock in clocks.values())
        _say(f"servers' clocks are known to {error * 1e3:.1f} ms")
        bench = Bench(runs, servers, clocks, line)
        starts = [await bench.apply_to_load(f"apply-{number}") for number in range(TRIES)]
        gaps = await bench.between_cells("cells")
        broken = [
            *_report("kubectl apply to the first profiling request", starts, MOST_TO_LOAD),
            *_report("last request of a cell to the first of the next", gaps, MOST_BETWEEN),
        ]
        for kind in ("cancel", "delete"):
            broken += await _ends(bench, kind)
        return broken


async def _ends(bench: Bench, kind: str) -> list[str]:
    patch = ("--type=merge", '--patch={"spec": {"cancel": true}}')
    found = []
    for number in range(TRIES):
        name = f"{kind}-{number}"
        about = ("benchmarkrun", name)
        cancel = kind == "cancel"
        command = ("patch", *about, *patch) if cancel else ("delete", *about, "--wait=false")
        found.append(await bench.end(name, *command))
        await bench.kubectl("delete", *about, "--ignore-not-found")
    last, stop = (sorted(values) for values in zip(*found, strict=True))
    _say(f"{kind} of a run in its profiling phase, {TRIES} tries, median and worst")
    _say(f"    {median(last) * 1e3:7.0f} ms {last[-1] * 1e3:7.0f} ms  until the last request")
    _say(
        f"    {median(stop) * 1e3:7.0f} ms {stop[-1] * 1e3:7.0f} ms  until the last profiler's stop"
    )
    return [
        f"{kind}: {what} within {bound:g} s"
        for what, worst, bound in (
            ("the last request", last[-1], MOST_TO_LAST_REQUEST),
            ("the profilers' stop", stop[-1], MOST_TO_STOP),
        )
        if worst > bound
    ]


def _report(what: str, tries: Sequence[Steps], bound: float) -> list[str]:
    whole = sorted(steps[-1][1] - steps[0][1] for steps in tries)
    _say(
        f"{what}: median {median(whole) * 1e3:.0f} ms of {len(whole)}"
        f" ({whole[0] * 1e3:.0f} to {whole[-1] * 1e3:.0f} ms), bound {bound * 1e3:.0f} ms"
    )
    for line in shares(tries):
        _say(line)
    return [f"{what}: median within {bound:g} s"] if median(whole) > bound else []


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Install, measure, remove; 1 when a bound is broken."""
    with namespace("latency") as space:
        tare = Installation(space, {"watch": {"namespaces": [space.name]}})
        with tare.installed():
            space.start_servers(*QUICK, replicas=REPLICAS)
            broken = asyncio.run(measure(space))
    for bound in broken:
        _say(f"BROKEN: {bound}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
