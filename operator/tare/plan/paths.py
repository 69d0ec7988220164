"""Dotted paths into the JSON document of a spec, as sweeps use them.

`phases.<name>.<field>` finds a phase by its name; every other step is a key of an object. Only what
describes the load or the request may vary: what the run owns as a whole (its target, workers,
goals, deadlines) is the same for every cell, or cells could not be compared.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["PathError", "apply", "check"]

_SWEEPABLE: Final = ("endpoint", "dataset", "phases", "cost")
_FIXED: Final = {
    "endpoint.service": "the run's target",
    "endpoint.url": "the run's target",
    "endpoint.urls": "the run's target",
    "endpoint.server": "a property of the run's target",
    "endpoint.tls": "a property of the run's target",
}
_PHASE_STEPS: Final = 3
"""`phases`, the phase's name, and at least one field."""


class PathError(ValueError):
    """A path that leads nowhere, or where a sweep may not go."""

    def __init__(self, path: str, value: Any, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.value = value
        self.message = message


def check(overrides: Mapping[str, Any]) -> None:
    """Check that every path may be swept and that none lies inside another.

    Raises:
        PathError: names the path and what is allowed.
    """
    for path, value in overrides.items():
        if reason := _refusal(path):
            raise PathError(path, value, reason)
        for other in overrides:
            if path.startswith(f"{other}."):
                raise PathError(path, value, f"lies inside {other}; sweep one of the two")


def apply(spec: dict[str, Any], path: str, value: Any) -> None:
    """Set the field at `path` of `spec`; objects on the way are made when they are missing.

    Raises:
        PathError: there is no such phase, or the way leads through something that has no fields.
    """
    target: Any = spec
    done: list[str] = []
    steps = path.split(".")
    if steps[0] == "phases":
        target = _phase(spec.get("phases"), steps[1], path, value)
        done, steps = steps[:2], steps[2:]
    for step in steps[:-1]:
        done.append(step)
        if target.get(step) is None:
            target[step] = {}
        target = target[step]
        if not isinstance(target, dict):
            way = ".".join(done)
            raise PathError(path, value, f"{way} has no fields; sweep {way} as a whole")
    target[steps[-1]] = value


def _refusal(path: str) -> str | None:
    """Return why no sweep may go to `path`, or None when it may."""
    steps = path.split(".")
    if not all(steps):
        return "empty step; write names joined by single dots"
    if steps[0] not in _SWEEPABLE:
        allowed = ", ".join(_SWEEPABLE)
        hint = _hint(steps[0], _SWEEPABLE)
        return f"may not be swept; allowed are fields of {allowed}{hint}"
    for fixed, what in _FIXED.items():
        if f"{path}.".startswith(f"{fixed}."):
            return f"may not be swept: it is {what}, which is the same for all cells"
    return _phase_refusal(steps) if steps[0] == "phases" else _field_refusal(steps)


def _phase_refusal(steps: list[str]) -> str | None:
    if len(steps) < _PHASE_STEPS:
        return "names no field; write phases.<name>.<field>"
    return "may not be swept: paths find a phase by its name" if steps[2] == "name" else None


def _field_refusal(steps: list[str]) -> str | None:
    return f"names no field; write {steps[0]}.<field>" if len(steps) == 1 else None


def _phase(phases: Any, name: str, path: str, value: Any) -> dict[str, Any]:
    known = [phase for phase in phases or () if isinstance(phase, dict)]
    for phase in known:
        if phase.get("name") == name:
            return phase
    names = [str(phase.get("name")) for phase in known]
    listed = ", ".join(names) or "none"
    message = f"no phase is named {name!r}; there are {listed}{_hint(name, names)}"
    raise PathError(path, value, message)


def _hint(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, list(words), n=1)
    return f"; did you mean {close[0]}?" if close else ""
