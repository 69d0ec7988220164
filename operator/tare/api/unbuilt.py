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


UNBUILT: tuple[Unbuilt, ...] = (
    Unbuilt(path="dataset.type", advice="use synthetic", refuses=_other_than("synthetic")),
    Unbuilt(
        path="phases[].type",
        advice="use concurrency or sessions (closed loops), or constant, poisson or gamma (open "
        "loops)",
        refuses=_other_than("concurrency", "sessions", "constant", "poisson", "gamma"),
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
