"""What a run under decision meets: its manifest, its target, workers, reports and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.measured import cache_verdict, phase_result, worker_result
from tare.api.reasons import CellState, Reason
from tare.decide.attempt import ProfilerState
from tare.decide.facts import BaselineVerdict, WorkerView
from tare.decide.records import TrialRecord
from tare.measure.hooks import HookKind, HookReport, Replica
from tare.measure.messages import WorkerState
from tare.measure.trial import TrialSummary, summarize

if TYPE_CHECKING:
    from tare.decide.attempt import Attempt

__all__ = ["COMPARED", "REPLICAS", "Worker", "manifest", "record_of", "report", "trial_summary"]

REPLICAS = tuple(
    Replica(uid=f"u{n}", name=f"qwen-{n}", origin=f"http://10.0.0.{n}:8000") for n in (1, 2)
)
COMPARED = BaselineVerdict(
    regression=False, reason=Reason.NOT_WORSE, message="Against before: No regression."
)
"""What a comparison with a baseline comes to, unless a test says otherwise."""


def manifest(**spec: Any) -> dict[str, Any]:
    """A BenchmarkRun with two cells, a reset, a profiler and a warm-up; `spec` overrides.

    None takes a field away.
    """
    document: dict[str, Any] = {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": "run",
            "namespace": "bench",
            "uid": "run-uid",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-30T12:00:00Z",
        },
        "spec": {
            "endpoint": {
                "service": {"name": "qwen", "port": 8000},
                "model": "m",
                "resetKvCache": True,
                "serverProfiler": True,
            },
            "dataset": {"prompts": {"isl": 32, "osl": 8}},
            "phases": [
                {
                    "name": "warmup",
                    "kind": "warmup",
                    "type": "concurrency",
                    "concurrency": 2,
                    "requests": 2,
                },
                {
                    "name": "profiling",
                    "kind": "profiling",
                    "type": "concurrency",
                    "concurrency": 2,
                    "requests": 4,
                },
            ],
            "sweep": {"grid": {"phases.profiling.concurrency": [2, 4]}},
            "workers": {"replicas": 2},
        },
    }
    fields = {**document["spec"], **spec}
    document["spec"] = {name: value for name, value in fields.items() if value is not None}
    return document


def report(hook: HookKind, *, ok: bool = True, reason: Reason | None = None) -> HookReport:
    """The report of a hook on both replicas."""
    return HookReport(
        hook=hook,
        ok=ok,
        verified=ok,
        reason=reason,
        message=f"{hook} on 2 replicas" if ok else f"{hook}: qwen-2 answered 500",
        replicas=tuple(replica.uid for replica in REPLICAS),
        calls=(),
    )


def record_of(attempt: Attempt, summary: TrialSummary | None) -> TrialRecord:
    """What is stored at the end of an attempt."""
    key, verdict = attempt.key, attempt.verdict
    assert verdict is not None
    start, later, profiler = attempt.reset, attempt.before_profiling, attempt.profiler
    return TrialRecord(
        cell=key.cell,
        trial=key.trial,
        attempt=key.attempt,
        state=verdict.state,
        reason=verdict.reason,
        message=verdict.message,
        fatal=verdict.fatal,
        reset=start.state if start else "Off",
        reset_before_profiling=later.state if later else "Off",
        profiler_failed=profiler is not None and profiler.state is ProfilerState.STOP_FAILED,
        summary=summary if verdict.state is CellState.MEASURED else None,
        cache=cache_verdict() if verdict.state is CellState.MEASURED else None,
    )


def trial_summary() -> TrialSummary:
    """The merged result of two workers."""
    phases = (
        phase_result(name="warmup", kind="warmup", first_cached_tokens=0),
        phase_result(counts={"issued": 4, "ok": 4}),
    )
    results = [worker_result(*phases, index=index) for index in (0, 1)]
    return summarize(results, goodput={}, cost=None)


@dataclass
class Worker:
    """A worker that has come: what it would say of itself."""

    pod: str
    state: WorkerState = WorkerState.WAITING
    phase: int = -1
    drained: int = -1
    has_result: bool = False
    heard: bool = True
    """It has spoken to the operator since that started."""

    @property
    def in_flight(self) -> bool:
        """Requests are being sent, or answers awaited."""
        sent = self.state is WorkerState.SENT and self.drained < self.phase
        return sent or self.state is WorkerState.RUNNING

    def view(self, index: int) -> WorkerView:
        """What the operator knows of it."""
        return WorkerView(
            index=index,
            pod_uid=self.pod,
            pod_name=self.pod,
            state=self.state,
            phase=self.phase,
            drained=self.drained,
            silent=0.0,
            has_result=self.has_result,
        )
