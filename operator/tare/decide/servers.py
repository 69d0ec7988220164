"""What the servers of a trial told at its two ends, as `status.current` keeps it.

A restart of a model server between the two shows only in the difference: another start of its
process, one more restart of its container, a counter that fell. So the first end is stored with the
outcome of the reset, before the gate opens, and the last one with the verdict; an operator that
starts in between has what its predecessor knew.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tare.measure.servers import ServerCounts, ServerFact, shifted
from tare.plan.stretches import begins_profiling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.decide.attempt import Attempt
    from tare.decide.draft import Draft
    from tare.measure.hooks import Replicas

__all__ = ["doubt_counters", "seen_after", "seen_before", "without_reset"]

_FACTS = frozenset(ServerFact)


def seen_before(replicas: Replicas) -> tuple[ServerCounts, ...]:
    """Return what the replicas told before the first gate."""
    return tuple(
        ServerCounts(replica=one.name, before=_told(replicas, one.name)) for one in replicas.ready
    )


def seen_after(attempt: Attempt, replicas: Replicas) -> tuple[ServerCounts, ...]:
    """Add what the same replicas told after the last drain.

    An older operator has written nothing down before the gate; then only this end is known.
    """
    before = {server.replica: server.before for server in attempt.servers or ()}
    return tuple(
        ServerCounts(
            replica=one.name, before=before.get(one.name, {}), after=_told(replicas, one.name)
        )
        for one in replicas.ready
    )


def without_reset(
    attempt: Attempt,
    begin: Mapping[str, Mapping[str, float]],
    end: Mapping[str, Mapping[str, float]],
) -> tuple[ServerCounts, ...] | None:
    """Take out of the counters what a reset between two phases has added, from `begin` to `end`."""
    if attempt.servers is None:
        return None
    moved = shifted({s.replica: s.before for s in attempt.servers}, begin, end)
    return tuple(replace(s, before=moved[s.replica]) for s in attempt.servers)


def doubt_counters(draft: Draft) -> None:
    """Drop the counters of a trial if an earlier process may have died in its second reset.

    Its canaries would be in their difference, and nobody knows how many were sent. What tells a
    restart by itself is kept. Only the first pass after a restart can tell.
    """
    attempt = draft.current
    if not draft.facts.restarted or attempt.servers is None or not _reset_ahead(draft):
        return
    draft.update(
        servers=tuple(
            replace(server, before={n: v for n, v in server.before.items() if n in _FACTS})
            for server in attempt.servers
        )
    )


def _reset_ahead(draft: Draft) -> bool:
    """Whether a reset between two phases of the attempt is still to be confirmed."""
    settings, done = draft.cell.spec.endpoint.reset, draft.current.before_profiling
    if settings is None or not settings.before_profiling:
        return False
    kinds = [phase.kind for phase in draft.cell.spec.phases]
    # Where profiling is the first phase, the reset at the start of the cell is this one too.
    first = int(settings.at_start) if done is None else done.phase + 1
    return any(begins_profiling(kinds, number) for number in range(first, len(kinds)))


def _told(replicas: Replicas, name: str) -> dict[str, float]:
    """What one of them told; a value that JSON cannot hold is none."""
    told = replicas.counts.get(name, {})
    return {key: value for key, value in told.items() if math.isfinite(value)}
