"""Where profiling begins: the phases that a reset before profiling comes ahead of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["begins_profiling"]


def begins_profiling(kinds: Sequence[str], phase: int) -> bool:
    """Whether a phase is of profiling and the one before it, if there is one, is not."""
    return kinds[phase] == "profiling" and (phase == 0 or kinds[phase - 1] != "profiling")
