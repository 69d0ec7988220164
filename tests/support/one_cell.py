"""Runs of one cell on the simulated servers, and what the servers say of the profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["one_cell", "profilers"]


def one_cell(**profiling: Any) -> dict[str, Any]:
    """Fields that make the quickstart a run of one profiling phase; it never gives up by itself."""
    phase = {"name": "profiling", "kind": "profiling", "type": "concurrency", **profiling}
    return {"sweep": None, "trials": None, "stopOn": None, "goals": None, "phases": [phase]}


def profilers(counters: Mapping[str, Mapping[str, Any]]) -> set[tuple[int, int, bool]]:
    """Starts, stops, and whether it runs: one entry for all servers of the same fate."""
    return {
        (c["profiler_starts"], c["profiler_stops"], c["profiler_running"])
        for c in counters.values()
    }
