"""One loop per run: observe, decide, write the status, act; woken by children and workers.

The loop holds nothing that a restart could lose: the stored status, the children and the workers'
own words say where a run is, and operations are safe to start again. API errors mean *outcome
unknown*; they are caught at the loop's edge and the pass is repeated after 1, 2, 4 s. A phase that
runs goes on meanwhile: it ends on the workers' own clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.decide.acceptance import Accepted, accept
from tare.decide.actions import CreateJob
from tare.decide.decision import decide
from tare.decide.facts import Facts
from tare.decide.refusal import refuse
from tare.decide.stored import run_of
from tare.kube.errors import KubeError, NotFound, Terminating
from tare.kube.port import JOB, POD, Document
from tare.manifests.metadata import Owner
from tare.measure.messages import CommandKind
from tare.runtime.baseline import copy_baseline
from tare.runtime.book import AttemptBook
from tare.runtime.children import Children
from tare.runtime.effects import Effects, post_events
from tare.runtime.operations import Operations
from tare.runtime.publish import publish
from tare.runtime.status_writer import StatusWriter, SupersededError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.api.problems import Problem
    from tare.decide.actions import Decision
    from tare.decide.children import TrialKey
    from tare.decide.facts import Run
    from tare.runtime.context import Context

__all__ = ["Driver"]

_LOG = logging.getLogger(__name__)

TICK = 2.0
"""Seconds after which a pass is made though nothing happened: deadlines are noticed then."""
RELIST = 15.0
"""Seconds between fresh LISTs of the children: a watch may have missed a deletion."""
RELIST_SOON = 2.0
"""The same while a Job lacks pods: why they are refused stands in Events, which nobody watches."""
PROGRESS = 5.0
"""Seconds between status writes that only change the progress, or a condition's message."""
OVERDUE = 180.0
"""Seconds without a pass after which the process counts as unhealthy; the API server's time-outs
and our pauses stay below."""
BACKOFF = (1.0, 2.0, 4.0)


class Driver:
    """Drives one run from its acceptance to its end."""

    def __init__(self, context: Context, document: Document) -> None:
        metadata = document["metadata"]
        self.owner = Owner(
            name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
        self.children = Children()
        self._context = context
        self._document = document
        self._wake = asyncio.Event()
        self._news: float | None = None
        """When the oldest news came that no pass has seen yet."""
        self._exiting = False
        self._writer = StatusWriter(context.cluster, context.operator_id)
        self._book = context.books[self.owner.uid] = AttemptBook(context.clock, self.wake)
        self._operations: Operations
        self._effects: Effects
        self._accepted: Accepted
        self._opened: set[tuple[TrialKey, int]] = set()
        self._blocker = ""
        self._restarted = False
        self._since = 0.0
        self._written = self._listed = float("-inf")
        self._last_pass = context.clock.now()

    def observe(self, document: Document) -> None:
        """Take in a newer version of the run."""
        if self._keep(document):
            self.wake()

    @property
    def document(self) -> Document:
        """The run as this driver knows it."""
        return self._document

    @property
    def overdue(self) -> bool:
        """Whether no pass was made for far longer than the tick."""
        return self._context.clock.now() - self._last_pass > OVERDUE

    def wake(self) -> None:
        """Make a pass soon: there is news."""
        if not self._wake.is_set():
            self._news = self._context.clock.now()
        self._wake.set()

    def list_again(self) -> None:
        """A watch had to start over: it says nothing of children that went meanwhile."""
        self._listed = float("-inf")

    def exit(self) -> None:
        """The operator exits: leave everything as it is, the next process goes on."""
        self._exiting = True
        self._wake.set()

    async def run(self) -> None:
        """Drive the run until its end, its deletion, or the operator's exit."""
        try:
            await self._until_available(self._begin)
            while not self._exiting:
                if await self._until_available(self._pass):
                    break
        except (NotFound, SupersededError) as error:
            _LOG.info("run %s/%s: %s", self.owner.namespace, self.owner.name, _why(error))
        finally:
            self._context.books.pop(self.owner.uid, None)
            self._context.claims.forget(self.owner)
            if hasattr(self, "_operations"):
                self._operations.cancel()

    async def _until_available(self, step: Any) -> Any:
        """Repeat a step for as long as the API server does not carry it out.

        A refusal is no end either: a right can be granted, a schema updated, and what the workers
        have handed in until then must not be lost. Only a run that is gone is done with.
        """
        attempt = 0
        while True:
            try:
                return await step()
            except NotFound:
                raise
            except KubeError as error:
                pause = BACKOFF[min(attempt, len(BACKOFF) - 1)]
                _LOG.warning("run %s: %s; again in %g s", self.owner.name, error, pause)
                attempt += 1
                await self._context.clock.sleep(pause)
                if self._exiting:
                    return True

    async def _begin(self) -> None:
        """Take the run over, and find out where it is."""
        self._keep(await self._writer.take_over(self._document))
        accepted = accept(self._document, allow_targets=self._context.settings.allowed_targets)
        if not isinstance(accepted, Accepted):
            await self._refuse(accepted.problems)
            return
        problem = await copy_baseline(self._context, self.owner, accepted, self._document)
        if problem is not None:
            await self._refuse((problem,))
            return
        self._accepted = accepted
        self._operations = Operations(self._context, self.owner, accepted, self._book, self.wake)
        self._effects = Effects(
            self._context, self.owner, accepted, self.children, self._operations
        )
        self._restarted = bool(self._status.get("current"))
        self._since = self._context.clock.wall().timestamp()
        await self._operations.load_records()
        await self._relist()

    async def _refuse(self, problems: Sequence[Problem]) -> None:
        """Say what is wrong with the run, and leave it."""
        decision = refuse(
            problems,
            self._status,
            now=self._context.clock.wall().timestamp(),
            generation=self._document["metadata"]["generation"],
        )
        await self._write(decision.status)
        await post_events(self._context, self.owner, decision.events)
        publish(self._context.metrics, self.owner, self._document)
        self._exiting = True

    async def _pass(self) -> bool:
        """Make one pass; True at the run's end."""
        self._wake.clear()
        news, self._news = self._news, None
        context = self._context
        self._last_pass = context.clock.now()
        lacking = self._operations.lacking_pods(self.children.jobs)
        if context.clock.now() - self._listed > (RELIST_SOON if lacking else RELIST):
            await self._relist()
        run = self._stored_run()
        await self._claim(run)
        facts = self._facts()
        began = context.clock.now()
        decision = decide(run, facts, self._status)
        context.metrics.decision_seconds.observe(context.clock.now() - began)
        if not decision.owns_target:
            # Before the terminal status: nobody would free the target of a run that is over.
            await context.claims.release(self.owner)
        changed = await self._write(decision.status)
        self._restarted = False
        if not decision.finished:
            self._expect(decision)
        if news is not None:
            context.metrics.reaction_seconds.observe(context.clock.now() - news)
        if changed:
            await self._tell(decision)
        if decision.finished:
            return True
        for action in decision.actions:
            self._keep(await self._effects.perform(action, self._document))
        if self._deleted and not decision.actions and not self._guarded:
            return True
        if not changed and not self._achieved(decision):
            self._operations.show_live(run.attempt)
            # Not `wait_for`: it hands a wake-up over in three turns of a loop that may be busy.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(TICK, decision.again_in or TICK)):
                    await self._wake.wait()
        return False

    def _stored_run(self) -> Run:
        """The run as it is stored.

        When its namespace is being deleted it counts as deleted, though its own turn comes later:
        our rights in the namespace may go before the run does.
        """
        run = run_of(self._document, self._accepted)
        return replace(run, deleting=run.deleting or self._operations.namespace_ends)

    async def _tell(self, decision: Decision) -> None:
        """Tell people and Prometheus what changed."""
        if not await post_events(self._context, self.owner, decision.events):
            self._operations.namespace_ends = True
        publish(self._context.metrics, self.owner, self._document)

    async def _claim(self, run: Run) -> None:
        """Own the target before anything is sent to it, or know whom to wait for."""
        if run.suspend or run.deleting:
            return
        try:
            blocker = await self._context.claims.claim(
                self.owner,
                created=self._document["metadata"]["creationTimestamp"],
                members=self._operations.members,
                wake=self.wake,
            )
        except Terminating:
            self._operations.namespace_ends = True
            raise
        self._blocker = blocker or ""

    def _achieved(self, decision: Decision) -> bool:
        """Whether an action was carried out; a Job that was refused is not asked for at once."""
        refused = {CreateJob(key) for key in self._effects.jobs_refused}
        return any(action not in refused for action in decision.actions)

    def _keep(self, document: Document) -> bool:
        """Keep a newer version; a watch event may overtake the answer to our own write."""
        newer = _version(document) > _version(self._document)
        if newer:
            self._document = document
        return newer

    @property
    def _status(self) -> Mapping[str, Any]:
        return self._document.get("status") or {}

    @property
    def _deleted(self) -> bool:
        return "deletionTimestamp" in self._document["metadata"]

    @property
    def _guarded(self) -> bool:
        finalizers = self._document["metadata"].get("finalizers") or ()
        return names.FINALIZER_PROFILER in finalizers

    def _facts(self) -> Facts:
        operations = self._operations
        return Facts(
            now=self._context.clock.wall().timestamp(),
            jobs=self.children.jobs,
            pods=self.children.pods,
            workers=self._book.views(),
            ops=operations.views(),
            opened=frozenset(self._opened),
            skews={
                (key, phase): skew
                for key in self._book.views()
                for phase, skew in self._book.start_skew(key).items()
            },
            records=operations.records,
            outcomes=operations.outcomes,
            summary_name=operations.summary_name,
            summaries=operations.summaries(),
            jobs_refused=dict(self._effects.jobs_refused),
            job_trouble=operations.job_trouble,
            blocker=self._blocker,
            restarted=self._restarted,
            since=self._since,
            prestart=self._effects.prestart,
        )

    def _expect(self, decision: Decision) -> None:
        """Tell the book which attempts count, give them their commands, forget all others."""
        keys = decision.expected
        self._book.expect(keys)
        for key, command in decision.commands.items():
            if command.do is CommandKind.START:
                self._opened.add((key, command.phase))
            self._book.command(key, command)
        self._book.drop(keys)
        self.children.forget_pods(keys)
        self._operations.forget(keys)

    async def _relist(self) -> None:
        labels = {names.LABEL_RUN_UID: self.owner.uid}
        cluster, namespace = self._context.cluster, self.owner.namespace
        before = self.children.pods
        jobs = await cluster.list(JOB, namespace, labels=labels)
        pods = await cluster.list(POD, namespace, labels=labels)
        self.children.relist(jobs, pods, before=before)
        self._listed = self._context.clock.now()
        if hasattr(self, "_operations"):
            await self._operations.look_for_trouble(self.children.jobs)

    async def _write(self, status: Mapping[str, Any]) -> bool:
        """Write the status when it changed; progress and messages alone only now and then."""
        before, status = self._status, self._writer.fitting(status)
        if before == status:
            return False
        now = self._context.clock.now()
        quiet = _essence(before) == _essence(status)
        if quiet and now - self._written < PROGRESS:
            return False
        self._keep(await self._writer.write(self._document, status))
        self._context.metrics.status_patch_seconds.observe(self._context.clock.now() - now)
        self._written = now
        return not quiet


def _version(document: Document) -> int:
    """Order of versions of one object; the API server counts upwards."""
    return int(document["metadata"]["resourceVersion"])


def _essence(status: Mapping[str, Any]) -> dict[str, Any]:
    """What is written at once: all but the progress, the start skew and what conditions say."""
    conditions = [{**condition, "message": ""} for condition in status.get("conditions") or ()]
    current = {**(status.get("current") or {}), "startSkew": None}
    return {**status, "progress": None, "conditions": conditions, "current": current}


def _why(error: Exception) -> str:
    return "another operator drives it now" if isinstance(error, SupersededError) else "it is gone"
