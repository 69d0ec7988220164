"""Fields of the API that this version does not build yet: refused by name, never ignored.

They stay in the models and in the CRD, so that a manifest need not change when a later version
builds them. Building a feature deletes its row here. What a server can never do is no matter of
this table; such advice stands with the rules of `api.endpoint`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tare.api.paths import Step, matches

__all__ = ["UNBUILT", "Finding", "Unbuilt", "find_unbuilt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbuilt:
    """A field, or some of its values, that is not built."""

    path: str
    """Path in the spec; `[]` stands for each item of a list."""
    advice: str
    """What to do instead."""
    refuses: Callable[[Any], bool] = lambda value: value is not None
    """Which values; every one unless said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A row that a spec runs into."""

    path: tuple[Step, ...]
    value: Any
    advice: str


def _other_than(*built: object) -> Callable[[Any], bool]:
    """Refuse every value but these."""
    return lambda value: value not in built


def _on(value: Any) -> bool:
    return value is not False


def _more_than_one_turn(turns: Any) -> bool:
    return turns not in ({}, {"mean": 1}, {"mean": 1.0})


_TARGET = "remove target and name the engines themselves as the endpoint's service or urls"

UNBUILT: tuple[Unbuilt, ...] = (
    Unbuilt(
        path="endpoint.resetKvCache.at",
        advice="use CellStart; to measure a cold server leave the warm-up phase out",
        refuses=_other_than("CellStart"),
    ),
    Unbuilt(
        path="endpoint.resetKvCache.resetExternal",
        advice="remove it, or write path: /reset_prefix_cache?reset_external=true",
        refuses=_on,
    ),
    Unbuilt(path="endpoint.resetKvCache.target", advice=_TARGET),
    Unbuilt(path="endpoint.serverProfiler.target", advice=_TARGET),
    Unbuilt(path="endpoint.serverProfiler.startBody", advice="remove it; a start has no body"),
    Unbuilt(
        path="endpoint.serverProfiler.maxSeconds",
        advice="remove it and bound the phase with durationSeconds",
    ),
    Unbuilt(
        path="endpoint.serverProfiler.maxIterations",
        advice="remove it, or limit the iterations in the server's own profiler settings",
    ),
    Unbuilt(path="dataset.type", advice="use synthetic", refuses=_other_than("synthetic")),
    Unbuilt(
        path="dataset.prompts.cacheBust.target",
        advice="use none; prompts differ from each other anyway",
        refuses=_other_than("none"),
    ),
    Unbuilt(
        path="dataset.prompts.cacheBust.scope",
        advice="remove it; there is no marker that could have a scope",
        refuses=_other_than("Trajectory"),
    ),
    Unbuilt(
        path="dataset.prompts.cacheBust.carrier",
        advice="remove it; there is no marker that could be carried",
        refuses=_other_than("text"),
    ),
    Unbuilt(path="dataset.prefixPrompts", advice="remove it; prompts share no prefix"),
    Unbuilt(
        path="dataset.turns",
        advice="remove it; every session has one turn",
        refuses=_more_than_one_turn,
    ),
    Unbuilt(
        path="phases[].type",
        advice="use concurrency (closed loop), or constant, poisson or gamma (open loops)",
        refuses=_other_than("concurrency", "constant", "poisson", "gamma"),
    ),
    Unbuilt(
        path="phases[].seamless",
        advice="remove it; every phase waits for its last answers",
        refuses=_on,
    ),
    Unbuilt(path="sweep.search", advice="use grid, zip or scenarios"),
    Unbuilt(
        path="sweep.coolDownSeconds",
        advice="remove it; a trial begins when the one before it has drained",
        refuses=_other_than(0),
    ),
    Unbuilt(
        path="workers.volume",
        advice="remove it; workers keep nothing on disk",
        refuses=_other_than({}),
    ),
    Unbuilt(path="baseline", advice="remove it and compare the exported results"),
    Unbuilt(path="artifacts", advice="remove it", refuses=_other_than({})),
    Unbuilt(path="prediction", advice="remove it", refuses=_other_than({})),
)


def find_unbuilt(spec: Any) -> tuple[Finding, ...]:
    """Find every field of the plain document of a spec that this version refuses."""
    return tuple(
        Finding(path=path, value=value, advice=row.advice)
        for row in UNBUILT
        for path, value in matches(spec, row.path)
        if row.refuses(value)
    )
