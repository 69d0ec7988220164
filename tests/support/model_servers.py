"""Model servers that tell of themselves, answer canaries and restart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from support.decided import REPLICAS, report
from tare.decide.facts import ResetResult
from tare.measure.hooks import HookKind

if TYPE_CHECKING:
    from tare.measure.hooks import Replicas

__all__ = ["CANARIES", "ModelServers"]

CANARIES = 3
"""Requests that a reset sends to each replica."""


def _at_first() -> dict[str, dict[str, float]]:
    first = {"requests": 100.0, "started_at": 1000.5, "restarts": 0.0}
    return {replica.name: dict(first) for replica in REPLICAS}


@dataclass
class ModelServers:
    """What the replicas tell of themselves, by name."""

    told: dict[str, dict[str, float]] = field(default_factory=_at_first)

    def look(self, found: Replicas) -> Replicas:
        """The replicas with what they tell now."""
        return replace(found, counts={r.name: dict(self.told.get(r.name, {})) for r in found.ready})

    def answer(self, requests: int) -> None:
        """Each of them answers so many, and counts them if it counts."""
        for counts in self.told.values():
            if "requests" in counts:
                counts["requests"] += requests

    def reset(self, found: Replicas) -> ResetResult:
        """A reset of them with its canaries."""
        begin = self.look(found).counts
        self.answer(CANARIES)
        return ResetResult(replicas=self.look(found), report=report(HookKind.RESET), begin=begin)

    def restart(self, name: str) -> None:
        """The container of one dies and is started again."""
        before = self.told[name]
        self.told[name] = {
            "requests": 0.0,
            "started_at": before["started_at"] + 1,
            "restarts": before["restarts"] + 1,
        }
