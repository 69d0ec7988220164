"""A decision while it is being drafted.

Steps read the facts and note actions, commands and conditions here. The central idiom is
`result = draft.op(kind)`: ask for an operation's result; when it was never started the request to
start it is noted and the step waits. So a step reads like a straight line, and yet each pass is
level-based: nothing depends on which event caused it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.actions import Action, StartOp
from tare.decide.attempt import Attempt, Verdict
from tare.decide.facts import Facts, Op, OpKind, OpView, Run, WorkerView
from tare.measure.messages import Command, CommandKind

if TYPE_CHECKING:
    from tare.decide.children import PodView, TrialKey
    from tare.decide.conditions import Conditions
    from tare.decide.records import Cell
    from tare.measure.hooks import Replica
    from tare.plan.order import PhaseKind

__all__ = ["Draft"]

T = TypeVar("T")


class Draft:
    """Mutable notes of one pass; `decide` turns them into a `Decision`."""

    def __init__(self, run: Run, facts: Facts, conditions: Conditions) -> None:
        self.run = run
        self.facts = facts
        self.conditions = conditions
        self.attempt = run.attempt
        self.actions: list[Action] = []
        self.commands: dict[Any, Command] = {}
        self.replicas: tuple[Replica, ...] = ()
        """Replicas that were found in this pass, for `status.target`."""
        self.again_in: float | None = None
        """Seconds after which something is due."""
        self.doing = ""
        """What the attempt waits for, for `status.progress`."""

    @property
    def current(self) -> Attempt:
        """The attempt under way; only steps of an attempt ask."""
        assert self.attempt is not None
        return self.attempt

    @property
    def cell(self) -> Cell:
        """The cell of the attempt."""
        return self.run.cells[self.current.key.cell]

    @property
    def workers(self) -> dict[int, WorkerView]:
        """Workers of the attempt that registered, by index."""
        return self.workers_of(self.current.key)

    def workers_of(self, key: TrialKey) -> dict[int, WorkerView]:
        """Workers of an attempt's Job.

        A Job that was deleted before its turn leaves workers behind that say goodbye for a second
        or two; they are not those of the Job that takes its name afterwards.
        """
        job = self.facts.jobs.get(key)
        foreign = {
            pod.uid for pod in self.facts.pods if pod.job and (not job or pod.job != job.uid)
        }
        known = self.facts.workers.get(key, {})
        return {index: w for index, w in known.items() if w.pod_uid not in foreign}

    @property
    def pods(self) -> tuple[PodView, ...]:
        """Pods of the attempt's Job, those that vanished among them."""
        job = self.facts.jobs.get(self.current.key)
        return tuple(
            pod
            for pod in self.facts.pods
            if pod.key == self.current.key and (not job or pod.job in ("", job.uid))
        )

    @property
    def all_registered(self) -> bool:
        """Every worker of the attempt has registered."""
        return len(self.workers) >= self.cell.spec.workers.replicas

    def phase_kind(self, phase: int) -> PhaseKind:
        """Whether phase number `phase` of the cell is warm-up or profiling."""
        return self.cell.spec.phases[phase].kind

    def update(self, **changes: Any) -> None:
        """Change the attempt that the status will hold."""
        self.attempt = replace(self.current, **changes)

    def act(self, action: Action) -> None:
        """Ask for an action."""
        self.actions.append(action)

    def command(self, do: CommandKind, phase: int = -1) -> None:
        """Tell the attempt's workers what to do."""
        self.commands[self.current.key] = Command(do=do, phase=phase)

    def condition(
        self, kind: ConditionType, value: bool | None, reason: Reason, message: str = ""
    ) -> None:
        """State a condition."""
        self.conditions.set(kind, value, reason, message)

    def wait(self, doing: str) -> bool:
        """Say what is waited for; always False, so that a step can `return draft.wait(…)`."""
        self.doing = doing
        return False

    @overload
    def op(self, kind: OpKind, result: type[T], *, phase: int = -1) -> T | None: ...

    @overload
    def op(self, kind: OpKind, result: None = None, *, phase: int = -1) -> bool | None: ...

    def op(self, kind: OpKind, result: Any = None, *, phase: int = -1) -> Any:
        """Return the result of an operation of this attempt, or None while it is on its way.

        `result` is the type that is expected; without it, True when it is done.
        """
        view = self.look(kind, phase=phase)
        if view is None:
            self.act(StartOp(Op(kind, self.current.key, phase)))
            return None
        if not view.done:
            return None
        if result is None:
            return True
        assert isinstance(view.result, result)
        return view.result

    def look(self, kind: OpKind, *, phase: int = -1) -> OpView | None:
        """An operation of this attempt if it was started by this process."""
        return self.facts.ops.get(Op(kind, self.current.key, phase))

    def end_attempt(
        self,
        state: CellState,
        reason: Reason,
        message: str,
        *,
        again: bool = False,
        fatal: bool = False,
    ) -> bool:
        """Give the attempt its verdict; always False, as `wait` is."""
        verdict = Verdict(
            state=state,
            reason=reason,
            message=message[:1024],
            at=self.facts.now,
            again=again,
            fatal=fatal,
        )
        self.update(verdict=verdict)
        return False

    def fault(self, reason: Reason, message: str) -> bool:
        """End the attempt for a fault that a repetition may mend; the second one is final."""
        again = self.current.faults < 1
        return self.end_attempt(CellState.INVALID, reason, message, again=again)

    def repeat(self, message: str) -> bool:
        """End the attempt because the operator was away or the run was suspended: no fault."""
        return self.end_attempt(CellState.INVALID, Reason.RESUMED, message, again=True)

    def setup_failed(self, reason: Reason, message: str) -> bool:
        """End the attempt because target or workers could not be set up.

        Before anything was measured that ends the run: every other cell would wait for the same
        thing in turn, hours with a large sweep.
        """
        measured = any(r.state is CellState.MEASURED for r in self.facts.records.values())
        return self.end_attempt(CellState.FAILED, reason, message, fatal=not measured)
