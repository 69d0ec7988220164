"""Cache-bust markers: which text goes where, in which phase and session.

Two prompts share exactly the tokens before their first difference, so a marker decides what a
server's prefix cache can match. A digest is a function of the plan alone: the same trajectory has
the same one in warm-up and profiling, in every load mode, whichever worker or process sends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from tare.api.names import ISOLATION_TARGETS

if TYPE_CHECKING:
    from tare.plan.order import CacheBustOrder, PhaseKind, PhaseOrder, WorkOrder

__all__ = [
    "DIGEST_LENGTH",
    "Marker",
    "MarkerKind",
    "Place",
    "benchmark_id",
    "digest",
    "landing",
    "marker_of",
    "trace_id",
]

DIGEST_LENGTH: Final = 12
_GAP: Final = "\n\n"


class Place(Enum):
    """Where in a prompt a marker stands; the first user turn is the question, not its context."""

    SYSTEM_START = ("system", False)
    SYSTEM_END = ("system", True)
    TURN_START = ("turn", False)
    TURN_END = ("turn", True)

    @property
    def in_system(self) -> bool:
        """In the system message."""
        return self.value[0] == "system"

    @property
    def at_end(self) -> bool:
        """Behind the text instead of before it."""
        return self.value[1]


class MarkerKind(StrEnum):
    """What a marker says."""

    RID = "rid"
    """The digest of one trajectory, in every phase."""
    WARMUP = "warmup"
    """The same word in every prompt of a warm-up, nothing in profiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker of a workload: what it says, where it stands and how it is carried."""

    kind: MarkerKind
    place: Place
    scope: Literal["Trajectory", "TrajectoryAndPhase"] = "Trajectory"
    carrier: Literal["text", "salt"] = "text"

    def stands_in(self, phase: PhaseKind) -> bool:
        """Whether prompts of such a phase have it."""
        return self.kind is MarkerKind.RID or phase == "warmup"

    def text(self, digest: str) -> str:
        """Return the marker with the blank line that parts it from the prompt."""
        word = f"[rid:{digest}]" if self.kind is MarkerKind.RID else "[warmup]"
        return _GAP + word if self.place.at_end else word + _GAP

    def salt(self, digest: str) -> str:
        """Return what stands for it as `cache_salt`: the same digest, or the same word."""
        return digest if self.kind is MarkerKind.RID else "warmup"


def marker_of(bust: CacheBustOrder, *, has_system: bool) -> Marker | None:
    """Return the marker that a workload asks for; None for none."""
    if bust.target == "none":
        return None
    kind = MarkerKind.WARMUP if bust.target in ISOLATION_TARGETS else MarkerKind.RID
    place = landing(bust.target, has_system=has_system)
    return Marker(kind=kind, place=place, scope=bust.scope, carrier=bust.carrier)


def landing(target: str, *, has_system: bool) -> Place:
    """Return where a target's marker lands: without a system message on the first user turn.

    Raises:
        ValueError: there is no such target, or it has no marker.
    """
    match target:
        case "system_prefix" | "warmup_isolation_system":
            return Place.SYSTEM_START if has_system else Place.TURN_START
        case "system_suffix":
            return Place.SYSTEM_END if has_system else Place.TURN_END
        case "first_turn_prefix" | "warmup_isolation_first_turn":
            return Place.TURN_START
        case "first_turn_suffix":
            return Place.TURN_END
        case _:
            raise ValueError(f"{target!r} is no target with a marker")


def benchmark_id(order: WorkOrder, phase: PhaseOrder) -> str:
    """Return what tells the digests of one measurement from those of all others.

    It names the run by its UID, so that a run created again under the same name meets nothing of
    the first one, its cell, trial and attempt, and the phase where the scope asks for that.
    """
    measurement = f"{order.run_uid}-{order.cell}-{order.trial}-{order.attempt}"
    if order.dataset.cache_bust.scope == "TrajectoryAndPhase":
        return f"{measurement}-{phase.name}"
    return measurement


def trace_id(seed: int, entry: int) -> str:
    """Return the name of a synthetic conversation: the same one for ever."""
    return f"synthetic-{seed}-{entry}"


def digest(benchmark: str, *, recycle_pass: int, trajectory_index: int, trace: str) -> str:
    """Return the 12 hex characters that one trajectory is marked with.

    Args:
        benchmark: from `benchmark_id`.
        recycle_pass: how often the trace was replayed before, in this phase.
        trajectory_index: index of the session in the plan, never a dispatch counter.
        trace: name of the conversation that the session replays.
    """
    text = f"{benchmark}:{recycle_pass}:{trajectory_index}:{trace}"
    return sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
