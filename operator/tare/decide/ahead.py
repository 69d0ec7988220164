"""Pods of the trials to come: started before a gate opens, so that they wait when it is their turn.

A pod start costs half a CPU-second of the node, which would disturb a phase that is measured, and
about a second of time, which each trial would cost if its pods started after the one before. So
pods are started in batches, while nothing is measured: most trials find the pods of the next one
waiting, and start none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.decide.actions import CreateJob, TakeBack
from tare.decide.children import TrialKey
from tare.decide.ending import remaining
from tare.decide.workers import waited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.api.workers import Workers
    from tare.decide.children import JobView
    from tare.decide.draft import Draft

__all__ = ["PATIENCE", "following", "have_pods_ahead"]

PATIENCE = 60.0
"""Seconds that an attempt waits for the pods of those after it before it takes them back."""
_PODS_AHEAD = 8
"""Pods that wait at most, unless a single trial has more: each takes about 40 MB."""


def following(draft: Draft) -> tuple[TrialKey, ...]:
    """First attempts at the trials after the one under way, as many as may have pods ahead.

    Pods that ask for resources hold them while they wait, so those are of one trial only.
    """
    here = (draft.current.key.cell, draft.current.key.trial)
    keys: list[TrialKey] = []
    pods = 0
    for cell, trial in remaining(draft):
        if (cell, trial) == here:
            continue
        workers = _workers(draft, TrialKey(cell, trial, 1))
        pods += workers.replicas
        if keys and (pods > _PODS_AHEAD or _asks_for_resources(workers)):
            break
        keys.append(TrialKey(cell, trial, 1))
    return tuple(keys)


def have_pods_ahead(draft: Draft, keys: Sequence[TrialKey]) -> bool:
    """Have the next trial's pods waiting, and none starting, before this attempt's first gate."""
    if draft.current.reset is not None or _is_off(draft):
        return True
    wanted = [key for key in keys if key not in draft.facts.jobs_refused]
    begun = [key for key in wanted if key in draft.facts.jobs or draft.workers_of(key)]
    if wanted[:1] != begun[:1]:
        for key in wanted:
            if key not in begun:
                draft.act(CreateJob(key))
        begun = wanted
    if all(len(draft.workers_of(key)) >= _workers(draft, key).replicas for key in begun):
        return True
    return _take_back(draft, begun) or draft.wait("the next trials' workers to start")


def _is_off(draft: Draft) -> bool:
    """No pods are started ahead: it was not asked for, it failed before, or a queue decides."""
    asked = draft.cell.spec.workers.prestart and draft.facts.prestart
    return not asked or bool(draft.run.spec.queue_name)


def _take_back(draft: Draft, keys: Sequence[TrialKey]) -> bool:
    """Delete the Jobs ahead when the pods of one cannot start beside this attempt's.

    Returns True when they were taken back; the runtime then starts no pods ahead any more.
    """
    jobs = [draft.facts.jobs[key] for key in keys if key in draft.facts.jobs]
    living = [job for job in jobs if not job.deleting]
    if not any(_is_stuck(draft, job) for job in living):
        return False
    for job in living:
        draft.act(TakeBack(job.name, job.uid))
    return True


def _is_stuck(draft: Draft, job: JobView) -> bool:
    if job.suspended:
        return True
    if any(p.key == job.key and p.trouble and not p.deleting for p in draft.facts.pods):
        return True
    return job.started is not None and waited(draft, job) > PATIENCE


def _workers(draft: Draft, key: TrialKey) -> Workers:
    return draft.run.cells[key.cell].spec.workers


def _asks_for_resources(workers: Workers) -> bool:
    return bool(workers.resources.requests or workers.resources.limits)
