"""Rows of the cache matrix as runs: one run for each kind of load, one cell for each row.

Cells differ in seed and system prompt, so that a cell without a reset meets nothing of the others.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from support.bed import manifest
from tare.manifests.metadata import Owner
from tare.measure.cache import CacheWord
from tare.plan.cache.expected import WIDEST
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.bed import Bed
    from tare.kube.port import Document

__all__ = [
    "LOADS",
    "RESETS",
    "SCOPES",
    "TARGETS",
    "Row",
    "assert_as_planned",
    "by_load",
    "cover",
    "run_of",
]

PREFIXES = ("none", "shared system", "verbatim system", "user context", "prefix pool")
TARGETS = (
    "none",
    "system_prefix",
    "system_suffix",
    "first_turn_prefix",
    "first_turn_suffix",
    "warmup_isolation_system",
    "warmup_isolation_first_turn",
)
SCOPES = ("Trajectory", "TrajectoryAndPhase")
LOADS = ("concurrency", "poisson", "sessions")
RESETS: dict[str, Any] = {
    "start": True,
    "before profiling": {"at": "BeforeProfiling"},
    "off": False,
}
REFUSED = {(prefix, "warmup_isolation_system") for prefix in PREFIXES if "system" not in prefix}

Row = tuple[str, ...]


def _pairs(row: Row) -> set[tuple[tuple[int, str], ...]]:
    return set(combinations(enumerate(row), 2))


def cover() -> list[Row]:
    """Rows in which every pair of values stands that is not refused; greedily chosen."""
    rows = [
        row for row in product(PREFIXES, TARGETS, SCOPES, LOADS, RESETS) if row[:2] not in REFUSED
    ]
    missing = set[tuple[tuple[int, str], ...]]().union(*map(_pairs, rows))
    chosen: list[Row] = []
    while missing:
        best = max(rows, key=lambda row: len(_pairs(row) & missing))
        missing -= _pairs(best)
        chosen.append(best)
    return chosen


def _prefix_prompts(prefix: str, number: int) -> dict[str, Any]:
    prompts: dict[str, dict[str, Any]] = {
        "none": {},
        "shared system": {"sharedSystemLength": 320},
        "verbatim system": {"systemPrompt": f"Assistant number {number} answers. " * 40},
        "user context": {"userContextLength": 200},
        "prefix pool": {"poolSize": 2, "poolLength": 320},
    }
    return prompts[prefix]


def _scenario(number: int, row: Row) -> dict[str, Any]:
    prefix, target, scope, _, reset = row
    return {
        "name": f"{number}",
        "set": {
            "dataset.seed": number,
            "dataset.prefixPrompts": _prefix_prompts(prefix, number),
            "dataset.prompts.cacheBust": {"target": target, "scope": scope},
            "endpoint.resetKvCache": RESETS[reset],
        },
    }


def run_of(load: str, rows: Sequence[tuple[int, Row]], **endpoint: Any) -> Document:
    """One run with a cell for each row; all rows have this load."""
    ends: dict[str, dict[str, Any]] = {
        "concurrency": {"concurrency": 2},
        "poisson": {"rate": 50, "maxConcurrency": 2},
        "sessions": {"concurrency": 2},
    }
    unit = "sessions" if load == "sessions" else "requests"
    dataset: dict[str, Any] = {"prompts": {"isl": 480, "osl": 4}}
    if load == "sessions":
        dataset["turns"] = {"mean": 2.0}
    return manifest(
        load,
        endpoint={"extraBody": {"temperature": 0}, **endpoint},
        dataset=dataset,
        phases=[
            {"name": kind, "kind": kind, "type": load, **ends[load], unit: number}
            for kind, number in (("warmup", 10), ("profiling", 24))
        ],
        sweep={"scenarios": [_scenario(number, row) for number, row in rows]},
        workers={"replicas": 1, "startTimeoutSeconds": 120},
    )


def by_load(rows: Sequence[Row]) -> Iterator[tuple[str, list[tuple[int, Row]]]]:
    """Yield each load with its rows and their numbers."""
    for load in LOADS:
        yield load, [(number, row) for number, row in enumerate(rows) if row[3] == load]


async def assert_as_planned(bed: Bed, run: Document) -> None:
    """Every trial of a finished run found what was planned, and the plan said enough."""
    metadata = run["metadata"]
    owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    for trial in (await ResultStore(bed.cluster).load_trials(owner)).values():
        cache = trial.record.cache
        assert cache is not None
        assert (cache.verdict, cache.source) == (CacheWord.AS_PLANNED, "usage"), cache
        for phase in cache.phases:
            assert phase.low is not None
            assert phase.high is not None
            assert phase.found is not None
            assert phase.low <= phase.found <= phase.high
        last = cache.phases[-1]
        assert (last.high or 0) - (last.low or 0) <= WIDEST * last.prompt_tokens
