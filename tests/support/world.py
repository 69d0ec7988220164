"""A world in which decisions come true: Jobs start pods, workers do as told, operations end.

It plays the border of `decide`: every action has its effect, at a moment that a test chooses. An
operator crash forgets what only its process knew. The world checks what must hold at every step, so
that a test may let anything happen in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from support.decided import COMPARED, REPLICAS, Worker, manifest, record_of, report, trial_summary
from support.invariants import check_end, check_gate, check_profile_end
from support.model_servers import ModelServers
from tare.api.names import FINALIZER_PROFILER
from tare.api.reasons import Reason
from tare.decide.acceptance import Accepted, accept
from tare.decide.actions import (
    Action,
    AddProfilerFinalizer,
    CreateJob,
    Decision,
    DeleteJob,
    RemoveProfilerFinalizer,
    StartOp,
    TakeBack,
)
from tare.decide.attempt import Attempt, ProfilerState
from tare.decide.children import JobView, PodView, TrialKey
from tare.decide.decision import decide
from tare.decide.facts import Facts, Op, OpKind, OpResult, OpView, ResetResult, Run
from tare.decide.outcome import goals_of, outcome_of
from tare.decide.records import TrialRecord
from tare.decide.stored import run_of
from tare.measure.hooks import HookKind, PreflightReport, Replicas
from tare.measure.messages import Command, CommandKind, WorkerState
from tare.net.allowlist import AllowList
from tare.runtime.book import applies

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.measure.trial import TrialSummary

__all__ = ["REPLICAS", "World", "manifest", "report"]


@dataclass
class World:
    """One run, its cluster, its workers and its model servers."""

    document: dict[str, Any] = field(default_factory=manifest)
    now: float = 1_000_000.0
    jobs: dict[TrialKey, JobView] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    workers: dict[TrialKey, dict[int, Worker]] = field(default_factory=dict)
    """Those that the operator knows, or that will register again with one that has restarted."""
    leaving: list[Worker] = field(default_factory=list)
    """Sent home, and not gone yet."""
    ops: dict[Op, OpView] = field(default_factory=dict)
    records: dict[tuple[int, int], TrialRecord] = field(default_factory=dict)
    """ConfigMaps: they outlive a crash."""
    opened: set[tuple[TrialKey, int]] = field(default_factory=set)
    restarted: bool = False
    blocker: str = ""
    since: float = 0.0
    prestart: bool = True
    summary_stored: bool = False
    profilers: dict[str, bool] = field(default_factory=lambda: dict.fromkeys("12", False))
    starts: int = 0
    stops: int = 0
    crashes: int = 0
    resets: list[TrialKey] = field(default_factory=list)
    found: Replicas = field(default_factory=lambda: Replicas(ready=REPLICAS))
    """What discovery finds: the replicas, and the servers of hooks that have others."""
    servers: ModelServers = field(default_factory=ModelServers)
    ends: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    """Attempts as they were when their trials were stored."""
    fail: dict[OpKind, OpResult] = field(default_factory=dict)
    """Results that operations have instead of success."""
    warm: bool = True
    """The servers' caches hold something."""
    finished: bool = False
    decision: Decision | None = None
    _started: set[str] = field(default_factory=set)
    """UIDs of Jobs whose pods were created."""

    def __post_init__(self) -> None:
        accepted = accept(self.document, allow_targets=AllowList.parse(""))
        assert isinstance(accepted, Accepted), accepted
        self.accepted = accepted

    @property
    def status(self) -> dict[str, Any]:
        """The stored status."""
        return self.document.get("status") or {}

    @property
    def run(self) -> Run:
        """The stored run."""
        return run_of(self.document, self.accepted)

    def step(self) -> bool:
        """Make one pass: decide, store the status, carry out the actions; True if that did work."""
        if self.finished:
            return False
        decision = self.decision = decide(self.run, self._facts(), self.status)
        again = decide(self.run, self._facts(), self.status)
        assert again == decision, "a decision depends on its inputs alone"
        self.restarted = False
        changed = dict(decision.status) != self.status
        self.document["status"] = dict(decision.status)
        if decision.finished:
            self.finished = True
            check_end(self)
            return True
        self._send_home(decision)
        for key, command in decision.commands.items():
            self._command(key, command)
        for action in decision.actions:
            self._carry_out(action)
        return changed or bool(decision.actions)

    def settle(self, limit: int = 200) -> None:
        """Step, and let everything that can happen happen, until nothing does."""
        for _ in range(limit):
            if not (self.step() | self.finish_ops() | self.move_workers()):
                return
        raise AssertionError(f"no end in sight: {self.status}")

    def go_on_until(self, holds: Callable[[World], object]) -> None:
        """Let things happen until something holds after a pass."""
        for _ in range(100):
            self.step()
            if holds(self):
                return
            self.finish_ops()
            self.move_workers()
        raise AssertionError(f"it never came true: {self.status}")

    def finish_ops(self) -> bool:
        """End the operations that are under way."""
        done = {op: self._perform(op) for op, view in self.ops.items() if not view.done}
        self.ops |= {op: OpView(done=True, result=result) for op, result in done.items()}
        return bool(done)

    def move_workers(self) -> bool:
        """Let workers start, drain, hand in results, speak to a new operator, leave."""
        moved = self._start_pods() | self._leave()
        for key, workers in self.workers.items():
            command = self.decision.commands.get(key) if self.decision else None
            for worker in workers.values():
                if self.ended(worker):
                    continue
                if not worker.heard:
                    worker.heard = moved = True
                elif worker.in_flight:
                    moved |= self._go_on(worker, key)
                elif command and command.do is CommandKind.FINISH and not worker.has_result:
                    worker.has_result = moved = True
        return moved

    def end_answers(self) -> None:
        """The last answers of seamless phases come in."""
        for worker in self.all_workers():
            if worker.in_flight and not self.ended(worker):
                sent = worker.state is WorkerState.SENT
                worker.drained = worker.phase if sent else worker.phase - 1

    def crash(self) -> None:
        """The operator dies and another one starts: only stored things and workers remain."""
        self.ops.clear()
        self.opened.clear()
        self.restarted = bool(self.status.get("current"))
        self.since = self.now
        self.prestart = True
        for worker in self.all_workers():
            worker.heard = False
        self.crashes += 1

    def crash_in_operations(self) -> None:
        """The operator dies before it learns that what it is doing was done."""
        self.finish_ops()
        self.crash()

    def lose_worker(self, reason: Reason = Reason.WORKER_LOST) -> bool:
        """One pod of the attempt under way dies; False when there is none that counts."""
        attempt = self.run.attempt
        workers = self.workers.get(attempt.key) if attempt is not None else None
        worker = workers[0] if workers else None
        if worker is None or worker.has_result or self.ended(worker):
            return False
        self.end_pod(worker.pod, reason)
        return True

    def end_pod(self, uid: str, reason: Reason = Reason.WORKER_LOST) -> None:
        """A pod dies."""
        pod = self.pods[uid]
        self.pods[uid] = replace(pod, ended=True, trouble=reason, exit_code=137, message="died")

    def delete_job(self) -> None:
        """Somebody deletes the Job of the attempt under way."""
        if (attempt := self.run.attempt) and attempt.key in self.jobs:
            self._delete_job(self.jobs[attempt.key].name)

    def patch_spec(self, **spec: Any) -> None:
        """A user edits the run."""
        self.document["spec"] = {**self.document["spec"], **spec}

    def delete(self) -> None:
        """A user deletes the run; finalizers hold the object."""
        self.document["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"

    @property
    def profiler_on(self) -> bool:
        """Whether a server's profiler runs now."""
        return any(self.profilers.values())

    def _facts(self) -> Facts:
        return Facts(
            now=self.now,
            jobs=dict(self.jobs),
            pods=tuple(self.pods.values()),
            workers={
                key: {index: w.view(index) for index, w in workers.items() if w.heard}
                for key, workers in self.workers.items()
            },
            skews=dict.fromkeys(self.opened, 0.001),
            ops=dict(self.ops),
            opened=frozenset(self.opened),
            records=dict(self.records),
            outcomes={
                cell.index: outcome_of(cell, found, goals_of(self.accepted.spec))
                for cell in self.accepted.cells
                if (found := [r for (c, _), r in self.records.items() if c == cell.index])
            },
            summary_name="run-summary-p0" if self.summary_stored else "",
            summaries=self._summaries(),
            restarted=self.restarted,
            blocker=self.blocker,
            since=self.since,
            prestart=self.prestart,
        )

    def _summaries(self) -> dict[TrialKey, TrialSummary]:
        return {
            key: trial_summary()
            for key, workers in self.workers.items()
            if len(workers) == 2 and all(w.has_result and w.heard for w in workers.values())
        }

    def _command(self, key: TrialKey, command: Command) -> None:
        if command.do is CommandKind.START:
            check_gate(self, key, command.phase)
            self.opened.add((key, command.phase))
        for worker in self.workers.get(key, {}).values():
            deaf = self.ended(worker) or not worker.heard
            if deaf or not applies(command, worker.state, worker.phase):
                continue
            if command.do is CommandKind.PREPARE:
                worker.state, worker.phase = WorkerState.READY, command.phase
            elif command.do is CommandKind.START:
                worker.state, worker.phase = WorkerState.RUNNING, command.phase
                self.warm = True
            elif command.do is CommandKind.STOP:
                worker.state, worker.drained = WorkerState.STOPPED, worker.phase

    def _carry_out(self, action: Action) -> None:
        match action:
            case CreateJob(key):
                name = f"run-{key.cell}-{key.trial}-{key.attempt}"
                uid = f"{name}-{len(self._started)}"
                self.jobs.setdefault(key, JobView(name=name, uid=uid, key=key, active=2))
            case DeleteJob(name, _) | TakeBack(name, _):
                self._delete_job(name)
                self.prestart = self.prestart and not isinstance(action, TakeBack)
            case StartOp(op):
                self.ops.setdefault(op, OpView(done=False))
                if op.kind is OpKind.PROFILER_STOP:
                    check_profile_end(self)
                if op.kind is OpKind.PROFILER_START:
                    mark = self.run.attempt.profiler if self.run.attempt else None
                    assert mark is not None, "a start without a stored intent"
                    assert mark.state is ProfilerState.STARTING
                    assert FINALIZER_PROFILER in self.run.finalizers
            case AddProfilerFinalizer():
                self.document["metadata"].setdefault("finalizers", []).append(FINALIZER_PROFILER)
            case RemoveProfilerFinalizer():
                assert not self.profiler_on, "the object was let go with a profiler on"
                self.document["metadata"]["finalizers"].remove(FINALIZER_PROFILER)

    def _delete_job(self, name: str) -> None:
        self.jobs = {key: job for key, job in self.jobs.items() if job.name != name}
        for uid, pod in self.pods.items():
            if pod.name.startswith(name):
                self.pods[uid] = replace(pod, ended=True, deleting=True)

    def _go_on(self, worker: Worker, key: TrialKey) -> bool:
        """Let a worker send its phase, and answers of the one before it come in first."""
        if worker.state is WorkerState.SENT:
            return False
        if worker.drained < worker.phase - 1:
            worker.drained = worker.phase - 1
        elif self.accepted.cells[key.cell].spec.phases[worker.phase].seamless:
            worker.state = WorkerState.SENT
        else:
            worker.state, worker.drained = WorkerState.DRAINED, worker.phase
        return True

    def _start_pods(self) -> bool:
        new = [job for job in self.jobs.values() if job.uid not in self._started]
        for job in new:
            self._started.add(job.uid)
            for index, name in ((index, f"{job.uid}-{index}") for index in (0, 1)):
                self._register(PodView(name=name, uid=name, key=job.key, index=index, job=job.uid))
        return bool(new)

    def _register(self, pod: PodView) -> None:
        """A worker comes: wanted, too late, or to an index that another one holds."""
        self.pods[pod.uid] = pod
        if self.decision is None or pod.key not in self.decision.expected:
            self.pods[pod.uid] = replace(pod, ended=True, exit_code=0)
            return
        known = self.workers.setdefault(pod.key, {}).get(pod.index)
        if known is not None and known.state is not WorkerState.STOPPED:
            self.end_pod(pod.uid)
        else:
            self.workers[pod.key][pod.index] = Worker(pod=pod.uid)

    def _send_home(self, decision: Decision) -> None:
        """Forget the workers of attempts that nobody expects; they end when they ask again."""
        for key in self.workers.keys() - decision.expected:
            self.leaving += self.workers.pop(key).values()

    def _leave(self) -> bool:
        left, self.leaving = [self.pods[worker.pod] for worker in self.leaving], []
        self.pods |= {pod.uid: replace(pod, ended=True) for pod in left}
        return bool(left)

    def all_workers(self) -> list[Worker]:
        """Those of all attempts, the ones that were sent home among them."""
        return [*self.leaving, *(w for workers in self.workers.values() for w in workers.values())]

    def ended(self, worker: Worker) -> bool:
        """Its pod is over."""
        return self.pods[worker.pod].ended

    def _perform(self, op: Op) -> OpResult:
        if op.kind is OpKind.PROFILER_START:
            if self.profiler_on:
                return report(HookKind(op.kind), ok=False, reason=Reason.PROFILER_START_FAILED)
            self.starts += 1
            self.profilers = dict.fromkeys(self.profilers, True)
        if op.kind is OpKind.PROFILER_STOP:
            start = self.ops.get(replace(op, kind=OpKind.PROFILER_START))
            assert start is None or start.done, "a stop that may overtake its start"
            self.stops += 1
            self.profilers = dict.fromkeys(self.profilers, False)
        return self.fail[op.kind] if op.kind in self.fail else self._succeed(op)

    def _succeed(self, op: Op) -> OpResult:
        match op.kind:
            case OpKind.PREFLIGHT:
                return PreflightReport(ok=True, reason=None, message="ready", final=False)
            case OpKind.RESET:
                return self._reset(op)
            case OpKind.PROFILER_START | OpKind.PROFILER_STOP:
                return report(HookKind(op.kind))
            case OpKind.CHECK_REPLICAS:
                return self.servers.look(self.found)
            case OpKind.STORE_TRIAL:
                self._store()
            case OpKind.STORE_SUMMARY:
                self.summary_stored = True
            case OpKind.COMPARE:
                return COMPARED
        return None

    def _reset(self, op: Op) -> ResetResult:
        assert op.key is not None
        settings = self.accepted.cells[op.key.cell].spec.endpoint.reset
        if settings is not None and op.phase < 0 and not settings.at_start:
            return ResetResult(replicas=self.servers.look(self.found), report=None)
        loaded = (w for w in self.all_workers() if w.in_flight and not self.ended(w))
        assert not any(loaded), "a reset beside load"
        self.resets.append(op.key)
        self.warm = False
        return self.servers.reset(self.found)

    def _store(self) -> None:
        attempt = self.run.attempt
        if attempt is None:
            assert self.run.deleting
            return
        key = attempt.key
        self.ends[key.cell, key.trial] = attempt
        record = record_of(attempt, self._summaries().get(key))
        stored = self.records.setdefault((key.cell, key.trial), record)
        assert stored.attempt == key.attempt, "a trial has two results"
