"""Cells of a run, and the stored ends of their trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tare.api.reasons import CellState, Reason
from tare.api.spec import BenchmarkRunSpec
from tare.measure.cache import CacheVerdict
from tare.measure.trial import TrialSummary

__all__ = ["Cell", "TrialRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the sweep with its resolved spec."""

    index: int
    name: str
    """The overrides as short text; empty for a run without a sweep."""
    overrides: Mapping[str, Any]
    spec: BenchmarkRunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """The stored end of a trial; one ConfigMap each."""

    cell: int
    trial: int
    attempt: int
    state: CellState
    reason: Reason
    message: str
    fatal: bool = False
    summary: TrialSummary | None = None
    reset: str = "Off"
    """What is known of the reset before the first gate; `decide.attempt.ResetState`."""
    reset_before_profiling: str = "Off"
    """The same of resets between warm-up and profiling: the weakest."""
    reset_message: str = ""
    """Why a reset is doubted: which replica did not confirm it, or still found old tokens."""
    profiler_failed: bool = False
    cache: CacheVerdict | None = None
    """Whether it found the cached tokens that its plan says; None when it was not measured."""
