"""The engines by name."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from tare.sim.core.batching import ContinuousBatching
from tare.sim.core.slots import Slots

if TYPE_CHECKING:
    from tare.sim.core.engine import Engine, EngineSettings

__all__ = ["Scheduler", "new_engine"]


class Scheduler(StrEnum):
    """How requests run beside each other."""

    BATCHING = "batching"
    SLOTS = "slots"


def new_engine(scheduler: Scheduler, settings: EngineSettings) -> Engine:
    """Return an idle engine with an empty cache."""
    kind = Slots if scheduler is Scheduler.SLOTS else ContinuousBatching
    return kind(settings)
