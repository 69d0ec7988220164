"""Expand `spec.sweep` into the points to measure: one resolved spec each.

A sweep has one of three forms; a *path* is a path of the spec, with a phase named by its name:

* `grid: {path: [values]}`: every combination, in the order given, the last axis fastest;
* `zip: {path: [values]}`: the first values together, the second ones together …;
* `scenarios: [{name, set: {path: value}}]`: points written down one by one.

Without a sweep the spec is its only point. Whether a value fits its field is left to the schema,
which looks at each resolved spec; here is checked what only the sweep can get wrong.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from tare.plan.paths import PathError, apply, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["MAX_POINTS", "ONLY_POINT", "Point", "SweepError", "expand"]

MAX_POINTS: Final = 500
ONLY_POINT: Final = "base"
"""Name of the point of a run without a sweep."""

_MAX_NAME: Final = 63
_FORMS: Final = ("grid", "zip", "scenarios")
_OTHER_KEYS: Final = ("coolDownSeconds",)


class SweepError(PathError):
    """A sweep that cannot be expanded: where in the spec, the value, and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the sweep, which becomes one cell."""

    index: int
    name: str
    """For people, at most 63 characters: `rate=4,target=none`, or the scenario's name."""
    overrides: Mapping[str, Any]
    """Path to value."""
    spec: Mapping[str, Any]
    """The spec with the overrides in place and without `sweep`."""


def expand(spec: Mapping[str, Any]) -> tuple[Point, ...]:
    """Expand the plain JSON document of a run's spec into its points, in their order.

    Raises:
        SweepError: the sweep is malformed, names a field that does not exist or may not be swept,
            yields the same spec twice, or has more than `MAX_POINTS` points.
    """
    base = {key: value for key, value in spec.items() if key != "sweep"}
    sweep = spec.get("sweep")
    if sweep is None:
        return (Point(index=0, name=ONLY_POINT, overrides={}, spec=copy.deepcopy(base)),)
    form = _form(sweep)
    points = tuple(_resolve(base, _READERS[form](sweep[form])))
    _refuse_duplicates(points, f"sweep.{form}")
    return points


def _form(sweep: Any) -> str:
    if not isinstance(sweep, dict):
        raise SweepError("sweep", sweep, f"give an object with one of {', '.join(_FORMS)}")
    for key in sweep:
        if key not in (*_FORMS, *_OTHER_KEYS) and sweep[key] is not None:
            allowed = ", ".join((*_FORMS, *_OTHER_KEYS))
            raise SweepError(f"sweep.{key}", sweep[key], f"unknown; allowed are {allowed}")
    given = [form for form in _FORMS if sweep.get(form) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise SweepError("sweep", sweep, f"give exactly one of {', '.join(_FORMS)}, not {found}")
    return given[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A point before its overrides are put into the spec."""

    name: str
    overrides: Mapping[str, Any]
    where: Callable[[str], str]
    """From a path of the spec to the place in the sweep that names it."""


def _grid(axes: Any) -> Iterator[_Draft]:
    _check_axes("sweep.grid", axes)
    size = math.prod(map(len, axes.values()))
    _check_size("sweep.grid", axes, size)
    return _drafts("sweep.grid", axes, product(*axes.values()))


def _zip(axes: Any) -> Iterator[_Draft]:
    _check_axes("sweep.zip", axes)
    first, *others = axes
    for path in others:
        if len(axes[path]) != len(axes[first]):
            message = f"has {len(axes[path])} values, {first} has {len(axes[first])}; give as many"
            raise SweepError(f"sweep.zip.{path}", axes[path], message)
    _check_size("sweep.zip", axes, len(axes[first]))
    return _drafts("sweep.zip", axes, zip(*axes.values(), strict=True))


def _scenarios(scenarios: Any) -> Iterator[_Draft]:
    if not isinstance(scenarios, list) or not scenarios:
        raise SweepError("sweep.scenarios", scenarios, "give a list of {name, set: {path: value}}")
    _check_size("sweep.scenarios", scenarios, len(scenarios))
    taken: set[str] = set()
    for index, scenario in enumerate(scenarios):
        path = f"sweep.scenarios[{index}]"
        name = _scenario_name(path, scenario)
        if name in taken:
            raise SweepError(f"{path}.name", name, "this name is taken; give each its own")
        taken.add(name)
        yield _Draft(name=name, overrides=scenario["set"], where=f"{path}.set.{{}}".format)


_READERS: Final[Mapping[str, Callable[[Any], Iterator[_Draft]]]] = {
    "grid": _grid,
    "zip": _zip,
    "scenarios": _scenarios,
}


def _check_axes(where: str, axes: Any) -> None:
    if not isinstance(axes, dict) or not axes:
        raise SweepError(where, axes, "give an object of path: [values]")
    for path, values in axes.items():
        if not isinstance(values, list) or not values:
            raise SweepError(f"{where}.{path}", values, "give a list of at least one value")


def _check_size(where: str, value: Any, size: int) -> None:
    if size > MAX_POINTS:
        raise SweepError(where, value, f"has {size} points; at most {MAX_POINTS} are allowed")


def _scenario_name(path: str, scenario: Any) -> str:
    if not isinstance(scenario, dict) or set(scenario) != {"name", "set"}:
        raise SweepError(path, scenario, "give an object with name and set, and nothing else")
    if not isinstance(scenario["set"], dict):
        raise SweepError(f"{path}.set", scenario["set"], "give an object of path: value")
    name = scenario["name"]
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        raise SweepError(f"{path}.name", name, f"give a text of 1 to {_MAX_NAME} characters")
    return name


def _drafts(
    where: str, axes: Mapping[str, Any], rows: Iterable[tuple[Any, ...]]
) -> Iterator[_Draft]:
    labels = _labels(tuple(axes))
    for index, row in enumerate(rows):
        pairs = zip(labels, row, strict=True)
        yield _Draft(
            name=_short(",".join(f"{label}={_text(value)}" for label, value in pairs), index),
            overrides=dict(zip(axes, row, strict=True)),
            where=f"{where}.{{}}".format,
        )


def _labels(paths: Sequence[str]) -> list[str]:
    """Return as much of the end of each path as tells it from the others."""
    parts = [path.split(".") for path in paths]
    lengths = range(1, max(map(len, parts)) + 1)
    candidates = ([".".join(part[-length:]) for part in parts] for length in lengths)
    return next(labels for labels in candidates if len(set(labels)) == len(labels))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _short(name: str, index: int) -> str:
    if len(name) <= _MAX_NAME:
        return name
    end = f"…#{index}"
    return name[: _MAX_NAME - len(end)] + end


def _resolve(base: Mapping[str, Any], drafts: Iterable[_Draft]) -> Iterator[Point]:
    for index, draft in enumerate(drafts):
        spec = copy.deepcopy(dict(base))
        try:
            check(draft.overrides)
            for path, value in draft.overrides.items():
                apply(spec, path, copy.deepcopy(value))
        except PathError as error:
            raise SweepError(draft.where(error.path), error.value, error.message) from error
        yield Point(index=index, name=draft.name, overrides=dict(draft.overrides), spec=spec)


def _refuse_duplicates(points: Iterable[Point], where: str) -> None:
    seen: dict[str, Point] = {}
    for point in points:
        twin = seen.setdefault(json.dumps(point.spec, sort_keys=True), point)
        if twin is not point:
            message = f"points {twin.index} and {point.index} ({point.name}) are the same spec"
            raise SweepError(where, dict(point.overrides), f"{message}; take one of them out")
