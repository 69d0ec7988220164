"""Whether a run may start: its manifest, every cell of its sweep, and its target.

Pure, and the only gate: nothing is created for a run that is refused here. The API server has seen
most of it already, but not what a sweep does to the spec, nor whose target it is. `tare validate`
asks the same question offline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tare.api.problems import Problem, check_manifest, check_spec
from tare.api.spec import BenchmarkRunSpec
from tare.api.warnings import find_warnings
from tare.decide.records import Cell
from tare.net.origin import BadUrlError
from tare.plan.sweep import Point, SweepError, expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tare.api.endpoint import Endpoint, ServiceTarget
    from tare.net.allowlist import AllowList

__all__ = ["MAX_PROBLEMS", "Accepted", "Refused", "accept", "warnings_of"]

MAX_PROBLEMS = 20
"""Problems that are reported; a sweep repeats one mistake in hundreds of cells."""
_NAMED = 5
_PHASE = re.compile(r"^spec\.phases\[(\d+)\]")
_SPEC = "spec."


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The run may start."""

    spec: BenchmarkRunSpec
    cells: tuple[Cell, ...]
    """In the order of the sweep; one for a run without a sweep."""
    document: Mapping[str, Any]
    """`spec` as it was when the run was accepted; later changes are told by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The run may not start."""

    problems: tuple[Problem, ...]
    """At least one, at most `MAX_PROBLEMS`."""


def accept(manifest: Any, *, allow_targets: AllowList) -> Accepted | Refused:
    """Check a manifest and resolve its cells.

    Args:
        manifest: the whole object as JSON; anything else is refused too.
        allow_targets: what the operator may be sent to besides Services of the run's namespace.
    """
    problems = list(check_manifest(manifest))
    if not isinstance(manifest, Mapping):
        return _refuse(problems)
    document = manifest.get("spec")
    spec, found = check_spec(document) if document is not None else (None, ())
    problems += found
    if spec is None or document is None or problems:
        return _refuse(problems)
    namespace = (manifest.get("metadata") or {}).get("namespace") or "default"
    problems += _foreign_targets(spec.endpoint, namespace, allow_targets)
    cells, found = _cells(document, allow_targets, told=problems)
    problems += found
    return _refuse(problems) if problems else Accepted(spec=spec, cells=cells, document=document)


def warnings_of(cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return what the cells may not mean, each sentence once with the cells that it is about."""
    about: dict[str, list[Cell]] = {}
    for cell in cells:
        for warning in find_warnings(cell.spec):
            about.setdefault(warning, []).append(cell)
    return tuple(f"{text}{_about(found)}" for text, found in about.items())


def _about(cells: Sequence[Cell]) -> str:
    """Name the cells of a sweep, some of them if they are many."""
    if not cells[0].overrides:
        return ""
    rest = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
    return f" (cell {', '.join(str(cell.index) for cell in cells[:_NAMED])}{rest})"


def _refuse(problems: Iterable[Problem]) -> Refused:
    distinct = tuple({str(problem): problem for problem in problems}.values())
    return Refused(problems=distinct[:MAX_PROBLEMS])


def _foreign_targets(endpoint: Endpoint, namespace: str, allowed: AllowList) -> Iterator[Problem]:
    """Find targets that only the operator's allow-list can permit, and it does not."""
    if endpoint.service is not None:
        yield from _foreign_service(endpoint.service, namespace, allowed)
    path = "spec.endpoint.url" if endpoint.url is not None else "spec.endpoint.urls[{}]"
    yield from _foreign_urls(endpoint.given_urls, path, allowed)
    yield from _foreign_engines(endpoint, allowed)


def _foreign_engines(endpoint: Endpoint, allowed: AllowList) -> Iterator[Problem]:
    """The same for URLs that hooks are sent to."""
    for name, hook in (("resetKvCache", endpoint.reset), ("serverProfiler", endpoint.profiler)):
        if hook is not None and hook.target is not None:
            path = f"spec.endpoint.{name}.target.urls[{{}}]"
            yield from _foreign_urls(hook.target.urls or (), path, allowed)


def _foreign_urls(urls: Iterable[str], path: str, allowed: AllowList) -> Iterator[Problem]:
    """Find URLs that are not allowed; `path` gets the number of each."""
    for index, url in enumerate(urls):
        here = path.format(index)
        try:
            permitted = allowed.allows(url)
        except BadUrlError as error:
            yield Problem(path=here, value=url, message=str(error))
            continue
        if not permitted:
            message = (
                f"'{url}' is not on the operator's allow-list; name a Service of the run's "
                "namespace, or have the operator's owner allow it"
            )
            yield Problem(path=here, value=url, message=message)


def _foreign_service(
    service: ServiceTarget, namespace: str, allowed: AllowList
) -> Iterator[Problem]:
    theirs = service.namespace or namespace
    if theirs == namespace or allowed.allows_service(service.name, theirs, service.port):
        return
    message = (
        f"'{theirs}' is not the run's namespace ({namespace}), and the operator's allow-list has "
        f"no {service.name}.{theirs}.svc; create the run there, or have the operator's owner "
        "allow it"
    )
    yield Problem(path="spec.endpoint.service.namespace", value=theirs, message=message)


def _cells(
    document: dict[str, Any], allowed: AllowList, *, told: Sequence[Problem]
) -> tuple[tuple[Cell, ...], tuple[Problem, ...]]:
    """Resolve every point of the sweep and check its spec as if it were a run's own."""
    try:
        points = expand(document)
    except SweepError as error:
        path = _SPEC + error.path
        return (), (Problem(path=path, value=error.value, message=error.message),)
    cells: list[Cell] = []
    problems: list[Problem] = []
    for point in points:
        spec, found = check_spec(point.spec)
        if spec is not None:
            engines = _foreign_engines(spec.endpoint, allowed)
            found = tuple(problem for problem in engines if problem not in told)
        problems += [_in_sweep(document, point, problem) for problem in found]
        if spec is not None:
            cells.append(
                Cell(index=point.index, name=point.name, overrides=point.overrides, spec=spec)
            )
    return tuple(cells), tuple(problems)


def _in_sweep(document: Mapping[str, Any], point: Point, problem: Problem) -> Problem:
    """Move a cell's problem to the line of the sweep that caused it.

    Where no single line did (two axes that do not go together), the cell is named.
    """
    place = _sweep_path(document, point, problem.path)
    if place is not None:
        return replace(problem, path=place)
    message = f"cell {point.index} ({point.name}): {problem}"
    return Problem(path="spec.sweep", value=problem.value, message=message)


def _sweep_path(document: Mapping[str, Any], point: Point, path: str) -> str | None:
    """Find the override whose value is at fault, with the rest of the path below it."""
    phase = _PHASE.match(path)
    if phase is not None:
        name = point.spec["phases"][int(phase[1])]["name"]
        path = f"spec.phases.{name}{path[phase.end() :]}"
    below = path.removeprefix(_SPEC)
    for override in point.overrides:
        if below == override or below.startswith((f"{override}.", f"{override}[")):
            return f"{_SPEC}sweep.{_form(document, point)}.{below}"
    return None


def _form(document: Mapping[str, Any], point: Point) -> str:
    sweep = document["sweep"]
    if sweep.get("scenarios"):
        return f"scenarios[{point.index}].set"
    return "grid" if sweep.get("grid") else "zip"
