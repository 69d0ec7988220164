"""Where profiling begins, and how far one profile of the server reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.api.phases import Phase

__all__ = ["begins_profiling", "last_profiled"]


def begins_profiling(kinds: Sequence[str], phase: int) -> bool:
    """Whether a phase is of profiling and the one before it, if there is one, is not."""
    return kinds[phase] == "profiling" and (phase == 0 or kinds[phase - 1] != "profiling")


def last_profiled(phases: Sequence[Phase], phase: int) -> int:
    """Return the last phase of a profile that starts before profiling phase `phase`.

    Phases of profiling that follow seamlessly share it: the profiler stays on between them.
    """
    while phases[phase].seamless and phases[phase + 1].kind == "profiling":
        phase += 1
    return phase
