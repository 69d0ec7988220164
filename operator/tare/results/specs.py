"""What differs between the specs of two runs: what makes them unlike, and what is only told.

Servers, images and addresses differ on purpose: that is what is compared. Another load, or other
prompts, make another measurement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.api.spec import BenchmarkRunSpec

__all__ = ["ALLOWABLE", "told", "unlike", "without_values"]

ALLOWABLE: Final = ("endpoint.model", "endpoint.type")
"""Paths that may differ if that is asked for."""

_WORKLOAD: Final = ("dataset", "phases", "endpoint.streaming", "endpoint.extraBody")
_GOODPUT: Final = ("goodput", "good_request_fraction")
"""Metrics that mean something else with other limits."""
_TOLD: Final = ("endpoint", "workers", "trials", "cost")
_SECRET: Final = ("endpoint.headers", "workers.env")
"""A value there may be a password."""
_MOST: Final = 60
"""Characters of a value."""
_UNSET: Final = "unset"


def unlike(
    baseline: BenchmarkRunSpec,
    candidate: BenchmarkRunSpec,
    *,
    metric: str,
    allowed: Collection[str] = (),
) -> tuple[str, ...]:
    """Say for each field of two cells' specs why they cannot be compared by `metric`.

    `allowed` are those of `ALLOWABLE` that may differ.
    """
    paths = (*_WORKLOAD, *(("goodput",) if metric in _GOODPUT else ()))
    found = [
        f"spec.{path} is {before} in the baseline and {after} in the candidate, which makes it "
        "another workload; measure both with the same."
        for path, before, after in _differences(baseline, candidate)
        if _is_below(path, paths)
    ]
    found += [
        f"spec.{path} is {before} in the baseline and {after} in the candidate; "
        f"`tare compare --allow {path}` compares them all the same."
        for path, before, after in _differences(baseline, candidate)
        if path in ALLOWABLE and path not in allowed
    ]
    return tuple(found)


def told(baseline: BenchmarkRunSpec, candidate: BenchmarkRunSpec) -> tuple[str, ...]:
    """Say what differs between two runs besides the workload: `path: before -> after`."""
    return tuple(
        f"{path}: {before} -> {after}"
        for path, before, after in _differences(baseline, candidate)
        if _is_below(path, _TOLD) and not _is_below(path, _WORKLOAD)
    )


def without_values(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec as it can be shown to anybody: values that may be passwords are left out."""
    shown = dict(spec)
    for path in _SECRET:
        part, _, name = path.partition(".")
        if name in shown.get(part, {}):
            rows = [{**r, "value": "…"} if "value" in r else r for r in shown[part][name]]
            shown[part] = {**shown[part], name: rows}
    return shown


def _differences(
    baseline: BenchmarkRunSpec, candidate: BenchmarkRunSpec
) -> Iterator[tuple[str, str, str]]:
    before, after = _flat(baseline), _flat(candidate)
    for path in sorted(before.keys() | after.keys()):
        values = [side.get(path, _UNSET) for side in (before, after)]
        if values[0] == values[1]:
            continue
        if _is_below(path, _SECRET):
            yield path, "one value", "another"
        else:
            yield path, _short(values[0]), _short(values[1])


def _flat(spec: BenchmarkRunSpec) -> dict[str, Any]:
    """Path to value; a phase is known by its name, as in a sweep."""
    document = spec.model_dump(by_alias=True, exclude_none=True)
    phases = document["phases"]
    document["phases"] = {phase["name"]: phase for phase in phases}
    order = ", ".join(phase["name"] for phase in phases)
    return {"phases": order, **dict(_leaves("", document))}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}" if path else str(name), item)
    else:
        yield path, value


def _short(value: Any) -> str:
    """Write a value as a manifest does, but for its end when it is long."""
    match value:
        case bool():
            text = str(value).lower()
        case float():
            text = f"{value:g}"
        case list() | tuple():
            text = ", ".join(_short(item) for item in value)
        case _:
            text = str(value)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _is_below(path: str, roots: Collection[str]) -> bool:
    return any(path == root or path.startswith(f"{root}.") for root in roots)
