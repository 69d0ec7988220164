"""What the scale bench asks of an operator, what it measures, and what is promised."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.measured_operator import Usage
from bench.references import Reference
from tare.measure.messages import CommandKind, WorkerState

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["MIB", "Load", "Measured", "share_below"]

MIB = 2**20
_MOST_SECONDS = 5.0
_MOST_DECISION_P99 = 0.1
_MOST_MEMORY = 200 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Runs of one cell, each with a target of its own."""

    runs: int
    workers: int
    hooks: bool = False
    """Reset and profiler."""
    spread: float = 0.0
    """Seconds over which the runs are created; 0 for all at once."""

    @property
    def title(self) -> str:
        """As it is printed."""
        hooks = "with reset and profiler" if self.hooks else "no hooks"
        when = f"created over {self.spread:g} s" if self.spread else "created at once"
        return f"{self.runs} runs × {self.workers} workers, {when}, {hooks}"

    @property
    def commands(self) -> list[tuple[WorkerState, CommandKind]]:
        """Commands that follow from the workers' words alone, with no call to a server between."""
        gate = (WorkerState.READY, CommandKind.START)
        if self.hooks:
            return [gate]
        drained = WorkerState.DRAINED
        return [gate, (drained, CommandKind.PREPARE), (drained, CommandKind.FINISH)]

    def manifest(self, number: int, target: str) -> dict[str, Any]:
        """One of the runs."""
        endpoint: dict[str, Any] = {"url": target, "model": "m"}
        if self.hooks:
            endpoint |= {"resetKvCache": True, "serverProfiler": True}
        phases = [
            {"name": kind, "kind": kind, "type": "concurrency", "concurrency": 8, "requests": 24}
            for kind in ("warmup", "profiling")
        ]
        return {
            "apiVersion": "tare.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": f"run-{number}"},
            "spec": {
                "endpoint": endpoint,
                "dataset": {"prompts": {"isl": 64, "osl": 4}},
                "phases": phases,
                "workers": {"replicas": self.workers},
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one load took."""

    load: Load
    seconds: float
    """From the last create to the end of the last run."""
    delays: list[float]
    """From the last worker's word to each worker's command, sorted."""
    passes: float
    """Decisions of the operator, all runs together."""
    reaction_p50: float
    reaction_p99: float
    """From the news of a run to the commands that follow, within the operator."""
    decision_p50: float
    decision_p99: float
    idle: Usage
    """The operator before the first run."""
    end: Usage
    requests: Counter[str]
    """The operator's requests to the API server."""
    reference: Reference

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the operator."""
        return self.end.cpu_seconds - self.idle.cpu_seconds

    @property
    def others_cores(self) -> float:
        """Cores that everything else on the machine kept busy, this bench's stubs included."""
        machine = self.end.machine_seconds - self.idle.machine_seconds
        return (machine - self.cpu_seconds) / (self.load.spread + self.seconds)

    def broken(self) -> list[str]:
        """What is promised for 50 runs × 8 workers and does not hold.

        Stubs, cluster and operator share the machine, so a command as a stub sees it also tells how
        long they wait for each other; a POST that the operator refuses at once, sent at the same
        time, tells that alone and is taken off.
        """
        waiting = self.reference.busy_post
        quick = share_below(self.delays, 0.99) - waiting < _MOST_DECISION_P99
        bounds = (
            (self.seconds <= _MOST_SECONDS, f"all runs end within {_MOST_SECONDS:g} s"),
            (
                quick,
                f"p99 of commands, less a plain POST, below {_MOST_DECISION_P99 * 1e3:g} ms",
            ),
            (self.end.peak < _MOST_MEMORY, f"memory below {_MOST_MEMORY / MIB:g} MiB"),
        )
        return [text for holds, text in bounds if not holds]


def share_below(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
