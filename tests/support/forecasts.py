"""One order of work for one model of a server: predicted in virtual time, measured over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from support.load import histogram, run_load, work_order
from support.simulated import Simulated
from tare.cli.virtual_client import VirtualWorkers
from tare.measure.histogram import Histogram
from tare.measure.rows import read_rows
from tare.plan.order import DatasetOrder, Lengths, PhaseOrder
from tare.sim.models.load import load_server_model
from tare.sim.predict.clock import VirtualClock
from tare.sim.predict.service import Service
from tare.sim.serve.options import parse_options
from tare.sim.serve.server import Server

if TYPE_CHECKING:
    from pathlib import Path

    from tare.measure.messages import PhaseResult, WorkerResult
    from tare.plan.order import WorkOrder
    from tare.sim.predict.usage import PoolUsage

__all__ = [
    "LONG_ANSWERS",
    "Plan",
    "differences",
    "hits_are_equal",
    "measured",
    "model_of",
    "predicted",
    "tokens",
]

HITS_WITHIN = 0.01
CALM_MS = 2.0
"""Lateness of the server and of the client's event loop, 99th percentile, in a calm round."""
TIMES = ("time_to_first_token", "request_latency", "time_per_output_token")
MODEL = """\
scheduler: batching
max_num_seqs: 4
max_num_batched_tokens: 128
block_size: 16
kv_blocks: {blocks}
overhead: 0.03
cost: {{step: 0.02, sequence: 1e-3, kv_token: 1e-6, prefill: 2e-4}}
"""
SHARING = DatasetOrder(
    entries=20,
    isl=Lengths(min=30, max=200),
    osl=Lengths(min=2, max=12),
    shared_system=100,
    pool_size=3,
    pool_length=60,
)
LONG_ANSWERS = DatasetOrder(entries=20, isl=Lengths(min=60, max=120), osl=Lengths(min=30, max=50))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is sent to which server."""

    model: str
    phase: PhaseOrder
    dataset: DatasetOrder = SHARING

    def order(self, *urls: str) -> WorkOrder:
        target = {"urls": urls or ("http://replica-0",), "model": "m"}
        return replace(work_order(phases=(self.phase,), target=target), dataset=self.dataset)


def model_of(folder: Path, blocks: int) -> str:
    path = folder / "model.yaml"
    path.write_text(MODEL.format(blocks=blocks))
    return str(path)


async def predicted(plan: Plan) -> tuple[PhaseResult, PoolUsage]:
    # It runs an event loop of its own.
    return await asyncio.to_thread(_predicted, plan)


def _predicted(plan: Plan) -> tuple[PhaseResult, PoolUsage]:
    clock = VirtualClock()
    service = Service(load_server_model(plan.model), replicas=1, clock=clock)
    workers = VirtualWorkers(plan.order(), service, clock)
    service.begin_watching()
    workers.run_phase(plan.phase)
    (result,) = workers.results()
    return result.phases[0], service.usage()


async def measured(plan: Plan) -> tuple[PhaseResult, bool]:
    """Return what the client measured, and whether the round was calm."""
    arguments = ("--host", "127.0.0.1", "--port", "0", "--model", "m", "--max-model-len", "400")
    server = Server(parse_options([*arguments, "--server-model", plan.model]))
    await server.start()
    result = await run_load(plan.order(server.origin))
    late = (await Simulated(server).counters())["late_p99_ns"]
    await server.stop(grace_seconds=0)
    return result.phases[0], max(late, loop_lag(result)) < CALM_MS * 1e6


def loop_lag(result: WorkerResult) -> int:
    return Histogram.from_json(result.event_loop_lag).percentile(99) or 0


def tokens(phase: PhaseResult) -> list[tuple[int, ...]]:
    """Entry, output tokens and cached tokens of each request, in the order of their numbers."""
    rows = read_rows(phase.rows)
    return [(row.entry, row.output_tokens or 0, row.cached_tokens or 0) for row in rows]


def mean(phase: PhaseResult, metric: str) -> float:
    found = histogram(phase, metric).mean
    assert found is not None
    return found


def differences(live: PhaseResult, virtual: PhaseResult) -> dict[str, float]:
    """Relative differences of the mean times."""
    return {name: mean(live, name) / mean(virtual, name) - 1 for name in TIMES}


def hits_are_equal(live: PhaseResult, virtual: PhaseResult) -> bool:
    one, other = (histogram(phase, "cached_tokens").sum for phase in (live, virtual))
    return abs(one - other) <= HITS_WITHIN * other
