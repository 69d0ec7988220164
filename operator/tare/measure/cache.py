"""Whether a trial found the cache that was planned: the verdict, and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tare.api.reasons import Reason

__all__ = ["CacheVerdict", "CacheWord", "PhaseCache"]


class CacheWord(StrEnum):
    """The three verdicts."""

    AS_PLANNED = "AsPlanned"
    """Every phase found as many cached tokens as its plan says, and the plan says enough."""
    CONTAMINATED = "Contaminated"
    """More was cached than the run itself can have caused."""
    UNVERIFIED = "Unverified"
    """Nobody can tell; the reason says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCache:
    """One phase: cached prompt tokens as planned and as found."""

    name: str
    prompt_tokens: int
    """As the server counted them, else as planned."""
    low: int | None
    """At least so many were planned; None when nothing could be."""
    high: int | None
    found: int | None
    """None when it was not reported for the phase alone."""
    doubt: str = ""
    """Why the plan decides nothing; empty when it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheVerdict:
    """The cache of one trial."""

    verdict: CacheWord
    reason: Reason
    """`AsPlanned`, `Contaminated`, `WarmCache` or why it is `Unverified`."""
    message: str
    source: Literal["usage", "counters", ""] = ""
    """Who told the cached tokens: each answer, or the servers' own counters."""
    phases: tuple[PhaseCache, ...] = ()
    assumptions: tuple[str, ...] = ()
    """What the plan takes for granted."""
