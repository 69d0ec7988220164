"""Operations of one run that take longer than a pass: hooks, preflight, storing.

Each runs once per key in a task of its own; its result becomes a fact of the next pass. What a
restart loses is only that it was done, and every operation is safe to do again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tare.api.reasons import CellState
from tare.decide.attempt import Attempt, ProfilerState, ResetState
from tare.decide.facts import Op, OpKind, OpResult, OpView, ResetResult, Run
from tare.decide.outcome import CellOutcome, cost_of, goals_of, outcome_of
from tare.decide.records import TrialRecord
from tare.kube.errors import KubeError, Terminating, Unavailable
from tare.kube.port import EVENT
from tare.measure.concerns import find_uneven_load
from tare.measure.servers import ServerFact
from tare.measure.trial import TrialSummary, summarize
from tare.results.document import TrialDocument
from tare.results.summary import summarize_run
from tare.runtime.baseline import compare_with_baseline
from tare.runtime.cache_check import check_cache
from tare.runtime.publish import run_name, show_live
from tare.runtime.target import TargetService

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from tare.api.dataset import Dataset
    from tare.api.endpoint import Endpoint
    from tare.decide.acceptance import Accepted
    from tare.decide.children import JobView, TrialKey
    from tare.manifests.metadata import Owner
    from tare.manifests.order import Address
    from tare.measure.hooks import HookCall, HookReport, Replica, Replicas
    from tare.runtime.book import AttemptBook
    from tare.runtime.context import Context

__all__ = ["Operations"]

_LOG = logging.getLogger(__name__)
_RETRY = 2.0


class Operations:
    """Operations of one run, and the ends of its trials."""

    def __init__(
        self,
        context: Context,
        owner: Owner,
        accepted: Accepted,
        book: AttemptBook,
        wake: Callable[[], None],
    ) -> None:
        self._context = context
        self._owner = owner
        self._accepted = accepted
        self._book = book
        self._wake = wake
        self._target = TargetService(context, owner)
        self._tasks: dict[Op, asyncio.Task[OpResult]] = {}
        self._awaited: dict[Op, str] = {}
        self._audit: dict[TrialKey, list[HookCall]] = {}
        self._merged: dict[TrialKey, TrialSummary] = {}
        self.records: dict[tuple[int, int], TrialRecord] = {}
        """Stored ends of trials by cell and trial."""
        self.outcomes: dict[int, CellOutcome] = {}
        """Cells that have stored trials."""
        self.summary_name = ""
        """ConfigMap of the run's summary, once it is stored."""
        self.job_trouble = ""
        self.namespace_ends = False
        """The API server said so when something was to be created: the run ends with it."""

    def start(self, op: Op, run: Run) -> None:
        """Start an operation unless it was started before."""
        if op not in self._tasks:
            task = asyncio.create_task(self._perform(op, run), name=f"{self._owner.name} {op.kind}")
            task.add_done_callback(lambda _: self._wake())
            self._tasks[op] = task

    def views(self) -> dict[Op, OpView]:
        """What was started, with the results of what is done."""
        return {
            op: OpView(done=True, result=task.result())
            if task.done()
            else OpView(done=False, awaited=self._awaited.get(op, ""))
            for op, task in self._tasks.items()
            if not task.cancelled()
        }

    def cancel(self) -> None:
        """Stop all operations; the process exits or the run is over."""
        for task in self._tasks.values():
            task.cancel()

    def forget(self, keep: AbstractSet[TrialKey]) -> None:
        """Drop what belongs to attempts that are over."""
        self._tasks = {op: t for op, t in self._tasks.items() if op.key is None or op.key in keep}
        self._awaited = {op: what for op, what in self._awaited.items() if op in self._tasks}
        self._audit = {key: rows for key, rows in self._audit.items() if key in keep}
        self._merged = {key: merged for key, merged in self._merged.items() if key in keep}

    def show_live(self, attempt: Attempt | None) -> None:
        """Show Prometheus the phase that runs now, or that none does."""
        reports = self._book.running(attempt.key) if attempt is not None else []
        if attempt is None or not reports:
            self._context.metrics.show_live(run_name(self._owner), None)
            return
        cell = self._accepted.cells[attempt.key.cell]
        phase = cell.spec.phases[reports[0].phase].name
        show_live(self._context.metrics, self._owner, cell=cell.name, phase=phase, reports=reports)

    async def address(self, endpoint: Endpoint) -> Address:
        """Where a cell's load goes; found by the preflight."""
        return await self._target.address(endpoint)

    async def system_prompt(self, dataset: Dataset) -> str | None:
        """The system prompt that a cell takes from a ConfigMap; read by the preflight.

        Raises:
            TargetError: it cannot be read.
        """
        return await self._target.system_prompt(dataset)

    async def members(self) -> frozenset[str]:
        """What makes this run's target the same as another's."""
        return await self._target.members(self._accepted.spec.endpoint)

    async def load_records(self) -> None:
        """Read the ends of trials that were stored before."""
        stored = await self._context.store.load_trials(self._owner)
        for document in stored.values():
            self._keep(document.record)

    def summaries(self) -> Mapping[TrialKey, TrialSummary]:
        """Merged results of attempts whose workers have all handed in theirs."""
        for key, workers in self._book.views().items():
            if key not in self._merged and all(worker.has_result for worker in workers.values()):
                replicas = self._accepted.cells[key.cell].spec.workers.replicas
                if len(workers) == replicas:
                    self._merged[key] = self._summarize(key)
        return self._merged

    def lacking_pods(self, jobs: Mapping[TrialKey, JobView]) -> set[str]:
        """Names of Jobs that have fewer pods than they should, and workers that never came."""
        known = self._book.views()
        wanted = {key: self._accepted.cells[key.cell].spec.workers.replicas for key in jobs}
        return {
            job.name
            for key, job in jobs.items()
            if max(job.active, len(known.get(key, ()))) < wanted[key]
        }

    async def look_for_trouble(self, jobs: Mapping[TrialKey, JobView]) -> None:
        """Look up why Jobs lack pods: only their Events say so."""
        self.job_trouble = ""
        lacking = self.lacking_pods(jobs)
        if not lacking:
            return
        try:
            events = await self._context.cluster.list(EVENT, self._owner.namespace)
        except KubeError as error:
            _LOG.info("events of the Jobs of %s cannot be read: %s", self._owner.name, error)
            return
        for event in events:
            about = event.get("involvedObject") or {}
            if event.get("reason") == "FailedCreate" and about.get("name") in lacking:
                self.job_trouble = event.get("message", "")

    async def _perform(self, op: Op, run: Run) -> OpResult:
        """Perform an operation; one whose outcome the API server left unknown is repeated."""
        while True:
            try:
                return await self._once(op, run)
            except Terminating:
                self.namespace_ends = True
                self._wake()
            except Unavailable as error:
                _LOG.warning("%s of %s: %s; again", op.kind, self._owner.name, error)
            except Exception:  # noqa: BLE001 - a bug of ours must not lose a result
                _LOG.exception("%s of %s failed; again", op.kind, self._owner.name)
            await self._context.clock.sleep(_RETRY)

    async def _once(self, op: Op, run: Run) -> OpResult:
        match op.kind:
            case OpKind.STORE_TRIAL:
                await self._store_trial(run)
                return None
            case OpKind.STORE_SUMMARY:
                await self._store_summary(run)
                return None
            case OpKind.COMPARE:
                return await compare_with_baseline(self._context, self._owner, self._accepted)
            case _:
                pass
        assert op.key is not None
        spec = self._accepted.cells[op.key.cell].spec
        endpoint = spec.endpoint
        match op.kind:
            case OpKind.PREFLIGHT:
                # An attempt before this one was lost: perhaps since the replicas are changing.
                settle = run.attempt is not None and run.attempt.faults > 0
                tell = partial(self._tell, op)
                return await self._target.preflight(endpoint, spec.dataset, tell, settle=settle)
            case OpKind.RESET:
                return await self._reset(op.key, op.phase, endpoint, run)
            case OpKind.PROFILER_START:
                name = f"{run.name}-cell{op.key.cell}-trial{op.key.trial}"
                report = await self._target.start_profiler(endpoint, _profiled(run), name=name)
            case OpKind.PROFILER_STOP:
                report = await self._target.stop_profiler(endpoint, _profiled(run))
            case OpKind.CHECK_REPLICAS:
                return await self._counted(endpoint, await self._target.replicas(endpoint))
        self._note(op.key, report)
        return report

    async def _reset(self, key: TrialKey, phase: int, endpoint: Endpoint, run: Run) -> ResetResult:
        """Reset before the first gate, or before profiling (`phase`), and read the counters.

        The counters of a trial begin after the canaries of the first reset; for what those of a
        later one add, they are read before it too, since nothing else runs then.
        """
        settings = endpoint.reset
        at_start = phase < 0
        send = settings is not None and (settings.at_start or not at_start)
        mark = f"{run.uid}/{key.cell}/{key.trial}/{key.attempt}/{phase}"
        begin = {}
        if not at_start and run.attempt is not None:
            begin = await self._target.counts(endpoint, run.attempt.replicas or ())
        result = await self._target.reset(endpoint, send=send, mark=mark)
        self._note(key, result.report)
        return replace(result, begin=begin, replicas=await self._counted(endpoint, result.replicas))

    async def _counted(self, endpoint: Endpoint, replicas: Replicas) -> Replicas:
        """Add what each ready replica tells of itself, and the restarts that its pod's status has.

        The pod was looked at before its counters were read: a restart in between looks as if it had
        come after both, which at worst accuses a server that restarted just before its trial.
        """
        counts = await self._target.counts(endpoint, replicas.ready)
        return replace(
            replicas,
            counts={
                one.name: counts.get(one.name, {})
                | ({} if one.restarts is None else {ServerFact.RESTARTS: float(one.restarts)})
                for one in replicas.ready
            },
        )

    def _tell(self, op: Op, awaited: str) -> None:
        """Take in what an operation waits for."""
        _LOG.info("run %s/%s waits: %s", self._owner.namespace, self._owner.name, awaited)
        self._awaited[op] = awaited
        self._wake()

    def _note(self, key: TrialKey, report: HookReport | None) -> None:
        """Keep the audit rows of a hook for the trial's document."""
        if report is None:
            return
        self._audit.setdefault(key, []).extend(report.calls)
        for call in report.calls:
            self._context.metrics.hook_calls.labels(call.hook, call.outcome).inc()

    def _summarize(self, key: TrialKey) -> TrialSummary:
        spec = self._accepted.cells[key.cell].spec
        return summarize(self._book.results(key), goodput=spec.goodput_seconds, cost=cost_of(spec))

    async def _store_trial(self, run: Run) -> None:
        """Store the end of the attempt; from then on its workers are answered "stored"."""
        attempt = run.attempt
        assert attempt is not None
        key = attempt.key
        record = self._record(attempt)
        dataset, skew = self._book.dataset(key), self._start_skew(attempt, record.summary)
        if record.state is CellState.MEASURED and record.summary is not None:
            verdict = await check_cache(
                self._accepted, attempt, record.summary, dataset=dataset, skew=skew
            )
            record = replace(record, cache=verdict)
        cell = self._accepted.cells[key.cell]
        document = TrialDocument(
            run=self._owner,
            cell_name=cell.name,
            overrides=cell.overrides,
            record=record,
            hooks=tuple(self._audit.get(key, ())),
            replicas=attempt.replicas or (),
            dataset={name: value for name, value in dataset.items() if name != "outline"},
            servers=attempt.servers or (),
            start_skew=skew,
        )
        await self._context.store.store_trial(document)
        self._keep(record)
        self._book.mark_stored(key)
        self._count(record)

    def _start_skew(self, attempt: Attempt, summary: TrialSummary | None) -> dict[str, float]:
        """Spread of the starts of each phase: over the workers, and over a worker's processes."""
        seen = attempt.start_skew
        if self._accepted.cells[attempt.key.cell].spec.workers.replicas == 1 and summary:
            seen = {**dict.fromkeys((phase.name for phase in summary.phases), 0.0), **seen}
        within = {p.name: p.start_skew for p in summary.phases} if summary is not None else {}
        return {name: skew + within.get(name, 0.0) for name, skew in seen.items()}

    async def _store_summary(self, run: Run) -> None:
        document = summarize_run(
            self._owner,
            model=run.spec.endpoint.model,
            cells=self._accepted.cells,
            outcomes=self.outcomes,
            goals=goals_of(run.spec),
        )
        names = await self._context.store.store_summary(document)
        self.summary_name = names[0]

    def _keep(self, record: TrialRecord) -> None:
        if record.summary is not None:
            record = replace(record, summary=record.summary.without_rows())
        self.records[record.cell, record.trial] = record
        cell = self._accepted.cells[record.cell]
        of_cell = [r for (index, _), r in sorted(self.records.items()) if index == record.cell]
        self.outcomes[record.cell] = outcome_of(cell, of_cell, goals_of(self._accepted.spec))

    def _record(self, attempt: Attempt) -> TrialRecord:
        verdict = attempt.verdict
        assert verdict is not None
        key, profiler = attempt.key, attempt.profiler
        summary = self._merged.get(key)
        if summary is None and self._book.results(key):
            summary = self._summarize(key)
        if summary is not None:
            concerns = (*summary.concerns, *find_uneven_load(attempt.servers or ()))
            summary = replace(summary, concerns=concerns)
        return TrialRecord(
            cell=key.cell,
            trial=key.trial,
            attempt=key.attempt,
            state=verdict.state,
            reason=verdict.reason,
            message=verdict.message,
            fatal=verdict.fatal,
            summary=summary,
            reset=attempt.reset.state if attempt.reset else ResetState.OFF,
            reset_before_profiling=attempt.before_profiling.state
            if attempt.before_profiling
            else ResetState.OFF,
            reset_message=_doubt(attempt),
            profiler_failed=profiler is not None and profiler.state is ProfilerState.STOP_FAILED,
        )

    def _count(self, record: TrialRecord) -> None:
        if record.summary is not None:
            for outcome in ("ok", "failed", "cancelled"):
                count = record.summary.counts.get(outcome, 0)
                self._context.metrics.requests.labels(outcome).inc(count)


def _profiled(run: Run) -> tuple[Replica, ...]:
    assert run.attempt is not None
    return run.attempt.profiled


def _doubt(attempt: Attempt) -> str:
    """Why a reset of the attempt is doubted: the words of the worse one."""
    marks = [mark for mark in (attempt.reset, attempt.before_profiling) if mark is not None]
    for state in (ResetState.INCOMPLETE, ResetState.UNVERIFIED):
        for mark in marks:
            if mark.state is state:
                return mark.message
    return ""
