"""What a pass asks the runtime to do, in order, after the status was written.

Each is safe to repeat: names are deterministic, deletes carry a UID, and an operation that is
already under way is not started twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tare.decide.children import TrialKey
from tare.decide.facts import Op
from tare.measure.messages import Command

__all__ = [
    "Action",
    "AddProfilerFinalizer",
    "CreateJob",
    "Decision",
    "DeleteJob",
    "Event",
    "RemoveProfilerFinalizer",
    "StartOp",
    "TakeBack",
]


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the worker Job of an attempt (and the run's token Secret before the first)."""

    key: TrialKey


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a Job and its pods in the background."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Delete the next attempt's Job: its pods cannot start beside this one's; start none ahead."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class StartOp:
    """Start an operation unless it runs already."""

    op: Op


@dataclass(frozen=True, slots=True)
class AddProfilerFinalizer:
    """Keep the object until every profiler is stopped."""


@dataclass(frozen=True, slots=True)
class RemoveProfilerFinalizer:
    """Every profiler is stopped; let the object go."""


Action = CreateJob | DeleteJob | TakeBack | StartOp | AddProfilerFinalizer | RemoveProfilerFinalizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes Event on the run, for `kubectl describe`."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome of one pass."""

    status: Mapping[str, Any]
    """The whole next `status`; written first, and only when it differs."""
    actions: tuple[Action, ...] = ()
    commands: Mapping[TrialKey, Command] = field(default_factory=dict)
    """What the workers of each attempt are asked now."""
    expected: frozenset[TrialKey] = frozenset()
    """Attempts whose workers are wanted; those of others are sent home and forgotten."""
    events: tuple[Event, ...] = ()
    """Posted after the status write succeeded."""
    again_in: float | None = None
    """Seconds after which a pass is due whatever happens; None leaves it to the driver's tick."""
    owns_target: bool = True
    """False once nothing more is sent to the target: suspended, or at the end."""
    finished: bool = False
    """The terminal status: the loop ends after writing it."""
