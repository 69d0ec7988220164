"""Workers of an attempt: their Job, their registration, and what can go wrong with them.

Registration is readiness; the pod only explains absence. A worker that is lost after that makes the
attempt invalid: a merged result without it would be reported as whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.actions import CreateJob
from tare.measure.messages import WorkerState

if TYPE_CHECKING:
    from tare.decide.children import JobView
    from tare.decide.draft import Draft

__all__ = ["SILENCE_LIMIT", "register", "spawn", "waited", "watch_workers"]

SILENCE_LIMIT = 90.0
"""Seconds without a word from a worker after which it counts as lost; it speaks every 20 s at
least, and the operator may have been away for a moment itself."""

_QUOTA = "exceeded quota"
"""In every refusal by a ResourceQuota."""


def spawn(draft: Draft) -> bool:
    """Have the Job of this attempt.

    One that was taken back before its turn goes first: it has the name that this one needs. A quota
    that refuses the Job may have room later, as when an earlier Job is gone; any other refusal is
    final.
    """
    key = draft.current.key
    job, refused = draft.facts.jobs.get(key), draft.facts.jobs_refused.get(key, "")
    if job is None and refused and _QUOTA not in refused:
        return draft.setup_failed(Reason.WORKERS_NOT_READY, f"Job refused: {refused}")
    if job is not None and job.deleting and draft.current.spawned is None:
        return draft.wait(f"the Job {job.name} to go")
    if draft.current.spawned is None:
        draft.update(spawned=draft.facts.now)
    if job is None and not draft.workers:
        if draft.current.reset is not None:
            return draft.fault(Reason.WORKER_LOST, "the workers' Job went while they were at work")
        draft.act(CreateJob(key))
        _say_absent(draft)
        return _late(draft) and draft.wait("the workers' Job")
    return True


def watch_workers(draft: Draft) -> bool:
    """Notice lost workers and a start that takes too long."""
    return _lost(draft) and _late(draft) and _failing(draft)


def register(draft: Draft) -> bool:
    """Wait until every worker has loaded its dataset and registered."""
    wanted, here = draft.cell.spec.workers.replicas, len(draft.workers)
    if draft.all_registered:
        draft.condition(
            ConditionType.WORKERS_READY,
            True,
            Reason.REGISTERED,
            f"{here} of {wanted} workers registered",
        )
        return True
    _say_absent(draft)
    return draft.wait("workers to start")


def _say_absent(draft: Draft) -> None:
    """State that workers are missing, and why."""
    wanted, here = draft.cell.spec.workers.replicas, len(draft.workers)
    job = draft.facts.jobs.get(draft.current.key)
    reason, message = _absence(draft)
    if job is not None and job.suspended:
        reason, message = Reason.QUEUED, "the Job is suspended: it waits in its queue"
    text = f"{here} of {wanted} workers registered" + (f": {message}" if message else "")
    draft.condition(ConditionType.WORKERS_READY, False, reason, text)


def waited(draft: Draft, job: JobView | None) -> float:
    """Seconds that workers of `job` had to register with this process.

    Its time in a queue does not count, nor the time before this process took the run over.
    """
    spawned = draft.current.spawned
    asked = draft.facts.now if spawned is None else spawned
    begun = job.started if job and job.started is not None else asked
    return draft.facts.now - max(asked, begun, draft.facts.since)


def _lost(draft: Draft) -> bool:
    by_uid = {pod.uid: pod for pod in draft.pods}
    for worker in draft.workers.values():
        if worker.has_result:
            continue
        pod = by_uid.get(worker.pod_uid)
        if pod is not None and pod.ended:
            reason = pod.trouble or Reason.WORKER_LOST
            detail = pod.message or "the pod was deleted or ended without handing in a result"
            return draft.fault(reason, f"worker {worker.index} ({pod.name}): {detail}")
        if worker.silent > SILENCE_LIMIT:
            text = f"worker {worker.index} ({worker.pod_name}): silent for {worker.silent:.0f} s"
            return draft.fault(Reason.WORKER_LOST, text)
        if worker.state is WorkerState.STOPPED:
            text = f"worker {worker.index} ({worker.pod_name}): stopped by a signal"
            return draft.fault(Reason.WORKER_LOST, text)
    return _never_came(draft)


def _never_came(draft: Draft) -> bool:
    """A pod that died before it registered will not be replaced: its index is lost."""
    for pod in draft.pods:
        if pod.index not in draft.workers and pod.ended:
            reason = pod.trouble or Reason.WORKER_LOST
            text = pod.message or "the pod ended before it registered"
            return draft.fault(reason, f"worker {pod.index} ({pod.name}): {text}")
    job = draft.facts.jobs.get(draft.current.key)
    if job is not None and (job.failure or job.deleting) and not draft.all_registered:
        return draft.fault(Reason.WORKER_LOST, job.failure or f"the Job {job.name} was deleted")
    return True


def _late(draft: Draft) -> bool:
    if draft.all_registered:
        return True
    job = draft.facts.jobs.get(draft.current.key)
    if job is not None and job.suspended:
        return True
    limit = draft.cell.spec.workers.start_timeout_seconds
    if waited(draft, job) < limit:
        return True
    reason, message = _absence(draft)
    here, wanted = len(draft.workers), draft.cell.spec.workers.replicas
    text = f"{here} of {wanted} workers registered within {limit:g} s"
    return draft.setup_failed(reason, f"{text}: {message}" if message else text)


def _absence(draft: Draft) -> tuple[Reason, str]:
    """Say why workers are missing, by the first pod that knows, else by the Job's events."""
    for pod in draft.pods:
        if pod.trouble is not None and pod.index not in draft.workers:
            return pod.trouble, f"{pod.name}: {pod.message}"
    refused = draft.facts.jobs_refused.get(draft.current.key)
    message = f"Job refused: {refused}" if refused else draft.facts.job_trouble
    return Reason.QUOTA_EXCEEDED if _QUOTA in message else Reason.WORKERS_NOT_READY, message


def _failing(draft: Draft) -> bool:
    """Give up a cell that only fails (`stopOn`)."""
    stop = draft.run.spec.stop_on
    if stop is None:
        return True
    issued = sum(worker.issued for worker in draft.workers.values())
    failed = sum(worker.failed for worker in draft.workers.values())
    if issued < stop.after_requests or not issued or failed / issued <= stop.error_fraction:
        return True
    text = f"{failed} of {issued} requests failed; stopOn.errorRate is {stop.error_rate}"
    return draft.end_attempt(CellState.FAILED, Reason.TOO_MANY_ERRORS, text)
