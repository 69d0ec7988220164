"""What is stored of a run: one document for each trial, one summary of all cells.

The documents are an interface of their own: programs read them from ConfigMaps long after the run.
`schema` names their shape and changes with it. Times are seconds unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tare.decide.outcome import CellOutcome
from tare.decide.records import TrialRecord
from tare.manifests.metadata import Owner
from tare.measure.goals import RunVerdict
from tare.measure.hooks import HookCall, Replica
from tare.measure.servers import ServerCounts
from tare.results.comparison import RunComparison

__all__ = ["RunResults", "SummaryDocument", "TrialDocument"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDocument:
    """The end of one trial: how it ended, what was measured, and the evidence for it."""

    schema: Literal["tare.dev/trial/v1"] = "tare.dev/trial/v1"
    run: Owner
    cell_name: str
    overrides: Mapping[str, Any]
    """Path in the spec to the value of this cell."""
    record: TrialRecord
    hooks: tuple[HookCall, ...] = ()
    """Every POST to every replica, failed ones included."""
    replicas: tuple[Replica, ...] = ()
    """The servers that were measured."""
    dataset: Mapping[str, Any] = field(default_factory=dict)
    """What was sent, as a worker described it; `exact` says whether token lengths are the server's
    own (`workload.describe`)."""
    servers: tuple[ServerCounts, ...] = ()
    """The servers' own counters before the first gate and after the last drain."""
    start_skew: Mapping[str, float] = field(default_factory=dict)
    """Phase to seconds between the first and the last worker's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDocument:
    """All cells of a run and its verdict."""

    schema: Literal["tare.dev/summary/v1"] = "tare.dev/summary/v1"
    run: Owner
    model: str
    cells: tuple[CellOutcome, ...]
    verdict: RunVerdict
    comparison: RunComparison | None = None
    """With the run that `spec.baseline` names; None without one, or when it was not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """Everything that is known of a run: what a report is made of, and a comparison."""

    schema: Literal["tare.dev/run/v1"] = "tare.dev/run/v1"
    run: Mapping[str, Any]
    """The BenchmarkRun as it was stored: metadata, spec and status."""
    summary: SummaryDocument
    trials: tuple[TrialDocument, ...]
    """By cell and trial; of several attempts the last."""
