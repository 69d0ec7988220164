"""Closing an attempt: load stopped, profiler stopped, result stored, Job deleted; in this order.

Every attempt ends here, measured or not, so that no way out can forget the profiler. The load stops
over the inbox within milliseconds; deleting the Job would take a second or more to reach the pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.reasons import CellState, Reason
from tare.decide.actions import DeleteJob
from tare.decide.facts import OpKind, WorkerView
from tare.decide.gates import stop_profiler
from tare.decide.workers import watch_workers
from tare.measure.messages import CommandKind, WorkerState

if TYPE_CHECKING:
    from tare.decide.attempt import Verdict
    from tare.decide.draft import Draft

__all__ = ["close"]

STOP_PATIENCE = 10.0
"""Seconds that a worker which does not answer may hold up the end of its attempt."""


def close(draft: Draft, verdict: Verdict, *, keep: bool = True) -> bool:
    """End the attempt; True when nothing of it is left and `draft.attempt` has moved on.

    `keep` is False for a run that is being deleted: its ConfigMaps would go with it.
    """
    measured = verdict.state is CellState.MEASURED
    draft.command(CommandKind.FINISH if measured else CommandKind.STOP)
    stopped = measured or _load_stopped(draft, verdict)
    if not stop_profiler(draft):
        return False
    if not stopped:
        return draft.wait("the workers to stop")
    key = draft.current.key
    record = draft.facts.records.get((key.cell, key.trial))
    if keep and not verdict.again and record is None:
        if measured and not _handed_in(draft):
            return False
        draft.op(OpKind.STORE_TRIAL)
        return draft.wait("the result to be stored")
    if not _told(draft):
        return draft.wait("the end of the attempt to be written down")
    _delete_job(draft)
    fault = verdict.reason is not Reason.RESUMED
    draft.attempt = draft.current.next(draft.facts.now, fault=fault) if verdict.again else None
    return True


def _handed_in(draft: Draft) -> bool:
    """The workers' results lie with this process.

    One that has just started waits until they are offered again. If a worker has died meanwhile,
    its result died with it: the verdict becomes a fault.
    """
    if draft.current.key in draft.facts.summaries:
        return True
    return watch_workers(draft) and draft.wait("the workers' results")


def _told(draft: Draft) -> bool:
    """The stored status holds the verdict, from which the Event is made."""
    stored = draft.run.attempt
    return stored is not None and stored.verdict is not None


def _delete_job(draft: Draft) -> None:
    job = draft.facts.jobs.get(draft.current.key)
    if job is not None and not job.deleting:
        draft.act(DeleteJob(job.name, job.uid))


def _load_stopped(draft: Draft, verdict: Verdict) -> bool:
    """No worker of the attempt can still send a request.

    One that does not answer is waited for `STOP_PATIENCE` seconds; its pod goes with the Job, and
    the next reset waits until that pod has ended.
    """
    if draft.facts.now - verdict.at > STOP_PATIENCE:
        return True
    # Of any Job: workers of one that was deleted may be known still.
    ended = {pod.uid for pod in draft.facts.pods if pod.ended}
    known = draft.facts.workers.get(draft.current.key, {})
    return all(_silent(worker, ended) for worker in known.values())


def _silent(worker: WorkerView, ended: set[str]) -> bool:
    if worker.pod_uid in ended or worker.has_result:
        return True
    return worker.state is WorkerState.STOPPED
