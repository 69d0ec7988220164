"""Two runs against each other, cell by cell: a document for people, programs and CI.

Cells are the same when their overrides are. A cell that cannot be compared says why, and decides
nothing; what is in one run only is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from tare.api.reasons import CellState
from tare.decide.acceptance import Accepted, accept
from tare.decide.outcome import CellOutcome, goals_of
from tare.decide.records import Cell
from tare.measure.comparison import Change, Difference, Method, compare, compare_others
from tare.measure.likeness import doubts, unlikeness
from tare.measure.metrics import METRICS, SCALAR_STATISTIC, Better
from tare.measure.paired import match
from tare.measure.side import Measure, Side
from tare.net.allowlist import AllowList
from tare.results.goals import measure_text
from tare.results.specs import told, unlike
from tare.results.units import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.results.document import RunResults

__all__ = [
    "TOLERANCE",
    "CellComparison",
    "ComparisonError",
    "RunComparison",
    "RunSide",
    "cell_key",
    "change_text",
    "compare_runs",
    "explain",
]

TOLERANCE: Final = 0.05
"""Part of the baseline's value that counts as no difference, unless somebody says otherwise.

Runs of the same server on a busy machine differ by a few per cent; 0 would call that open.
"""

_DEFAULT: Final = Measure(metric="time_to_first_token", statistic=SCALAR_STATISTIC)
_NAMED: Final = 5
"""Cells that the sentence names."""
_WITHIN: Final = (
    "The interval knows how much requests differ within these trials, and not how much a "
    "repetition would: spec.trials.count: 3 in both runs tells."
)
_SAID: Final = {
    Change.BETTER: "better",
    Change.WITHIN_TOLERANCE: "within {}",
    Change.NOT_WORSE: "not worse",
    Change.WORSE: "worse",
    Change.NOT_CONCLUSIVE: "not conclusive",
}
"""What a difference means, with the place of the tolerance."""


class ComparisonError(Exception):
    """The results of a run cannot be read; `str()` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSide:
    """One of the two runs, and what it measured."""

    namespace: str
    name: str
    uid: str
    created: str
    model: str
    server_version: str
    """As the server says it; empty when it does not."""
    images: tuple[str, ...]
    """Of its replicas, each once."""
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One cell in both runs."""

    name: str
    overrides: Mapping[str, Any]
    change: Change
    primary: Difference | None
    """None when the cell is refused."""
    others: tuple[Difference, ...]
    refusals: tuple[str, ...]
    """Why it cannot be compared."""
    doubts: tuple[str, ...]
    """What its reader must know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Both runs, every cell, and one sentence for the whole."""

    schema: Literal["tare.dev/comparison/v1"] = "tare.dev/comparison/v1"
    baseline: RunSide
    candidate: RunSide
    metric: str
    statistic: str
    tolerance: float
    """Part of the baseline's value."""
    differences: tuple[str, ...]
    """What is not the same in the two runs, as `path: before -> after`."""
    cells: tuple[CellComparison, ...]
    """In the candidate's order."""
    only_baseline: tuple[str, ...]
    """Names of cells that the other run does not have."""
    only_candidate: tuple[str, ...]
    regression: bool | None
    """None when the data do not decide."""
    message: str


def compare_runs(
    baseline: RunResults,
    candidate: RunResults,
    *,
    tolerance: float = TOLERANCE,
    measure: Measure | None = None,
    allowed: Collection[str] = (),
) -> RunComparison:
    """Compare two runs.

    Args:
        baseline: what the other one is held against.
        candidate: the run in question.
        tolerance: part of the baseline's value up to which a difference does not matter.
        measure: the primary metric; else that of the candidate's first goal with a direction, else
            the mean time to first token.
        allowed: paths of `results.specs.ALLOWABLE` that may differ.

    Raises:
        ComparisonError: the spec of a run is not understood, or its rows are damaged.
    """
    before, after = _read("baseline", baseline), _read("candidate", candidate)
    primary = measure or _declared(after.accepted)
    both = [key for key in after.cells if key in before.cells]
    cells = tuple(
        _compare(before.cells[key], after.cells[key], primary, tolerance, allowed) for key in both
    )
    regression, message = _conclude(primary, cells, tolerance)
    return RunComparison(
        baseline=_side(baseline),
        candidate=_side(candidate),
        metric=primary.metric,
        statistic=primary.statistic,
        tolerance=tolerance,
        differences=(
            *_servers(_side(baseline), _side(candidate)),
            *told(before.accepted.spec, after.accepted.spec),
        ),
        cells=cells,
        only_baseline=before.names_except(both),
        only_candidate=after.names_except(both),
        regression=regression,
        message=message,
    )


def cell_key(overrides: Mapping[str, Any]) -> bytes:
    """Return what two runs have in common of a cell: its overrides, in whatever order."""
    return orjson.dumps(dict(overrides), option=orjson.OPT_SORT_KEYS)


def change_text(change: Change, tolerance: str) -> str:
    """Name what a difference means, in a word or two, beside a tolerance in words."""
    return _SAID[change].format(tolerance)


def explain(found: RunComparison) -> str:
    """Say in one breath with what was compared, what came of it and, if nothing, the first why."""
    parts = [f"Against {found.baseline.name}: {found.message}"]
    if found.regression is None:
        open_cells = (c for c in found.cells if c.change is Change.NOT_CONCLUSIVE)
        parts += [f"{cell.name}: {why}" for cell in open_cells if (why := _why(cell))][:1]
    return " ".join(parts)


def _why(cell: CellComparison) -> str:
    if cell.refusals:
        return cell.refusals[0]
    return f"{cell.primary.doubt}." if cell.primary is not None and cell.primary.doubt else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """One cell of one run."""

    cell: Cell
    outcome: CellOutcome
    side: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run whose spec is understood; cells by their overrides."""

    accepted: Accepted
    cells: Mapping[bytes, _Measured]

    def names_except(self, keys: Collection[bytes]) -> tuple[str, ...]:
        return tuple(found.cell.name for key, found in self.cells.items() if key not in keys)


def _read(role: str, results: RunResults) -> _Run:
    accepted = accept(results.run, allow_targets=AllowList.everything())
    if not isinstance(accepted, Accepted):
        raise ComparisonError(
            f"the spec of the {role} is not understood by this version of Tare: "
            f"{accepted.problems[0]}"
        )
    outcomes = {outcome.index: outcome for outcome in results.summary.cells}
    cells = {
        cell_key(cell.overrides): _Measured(
            cell=cell,
            outcome=outcomes[cell.index],
            side=_measured(results, outcomes[cell.index]),
        )
        for cell in accepted.cells
        if cell.index in outcomes
    }
    return _Run(accepted=accepted, cells=cells)


def _measured(results: RunResults, outcome: CellOutcome) -> Side:
    trials = [trial for trial in results.trials if trial.record.cell == outcome.index]
    return Side(
        trials=tuple(
            trial.record.summary
            for trial in trials
            if trial.record.state is CellState.MEASURED and trial.record.summary is not None
        ),
        cache=outcome.cache,
        prompts=trials[0].dataset if trials else {},
    )


def _declared(accepted: Accepted) -> Measure:
    for goal in goals_of(accepted.spec):
        if METRICS[goal.metric].better is not Better.NEITHER:
            return Measure(metric=goal.metric, statistic=goal.statistic)
    return _DEFAULT


def _compare(
    before: _Measured,
    after: _Measured,
    measure: Measure,
    tolerance: float,
    allowed: Collection[str],
) -> CellComparison:
    refusals = [
        *unlike(before.cell.spec, after.cell.spec, metric=measure.metric, allowed=allowed),
        *_unmeasured("baseline", before),
        *_unmeasured("candidate", after),
    ]
    if not refusals:
        refusals += unlikeness(before.side, after.side)
    try:
        pairs = None if refusals else match(before.side, after.side)
    except ValueError as error:
        raise ComparisonError(f"cell {after.cell.name}: {error}") from error
    sides = (before.side, after.side, pairs)
    primary = None if refusals else compare(measure, *sides, tolerance=tolerance)
    return CellComparison(
        name=after.cell.name,
        overrides=after.cell.overrides,
        change=primary.change if primary else Change.NOT_CONCLUSIVE,
        primary=primary,
        others=compare_others(measure, *sides, tolerance=tolerance) if primary else (),
        refusals=tuple(refusals),
        doubts=(*doubts(*sides), *_about(primary)) if primary else (),
    )


def _about(primary: Difference) -> tuple[str, ...]:
    return (_WITHIN,) if primary.method is Method.PAIRED_REQUESTS else ()


def _unmeasured(role: str, found: _Measured) -> tuple[str, ...]:
    outcome = found.outcome
    if outcome.state is CellState.MEASURED and found.side.trials:
        return ()
    why = f" ({outcome.message})" if outcome.message else ""
    return (f"The {role} did not measure it: {outcome.state}{why}.",)


def _side(results: RunResults) -> RunSide:
    metadata, status = results.run["metadata"], results.run.get("status") or {}
    target = status.get("target") or {}
    replicas = target.get("replicas") or ()
    return RunSide(
        namespace=results.summary.run.namespace,
        name=results.summary.run.name,
        uid=results.summary.run.uid,
        created=metadata.get("creationTimestamp") or "",
        model=results.summary.model,
        server_version=target.get("serverVersion") or "",
        images=tuple(sorted({r["image"] for r in replicas if r.get("image")})),
        replicas=len(replicas),
    )


def _servers(before: RunSide, after: RunSide) -> tuple[str, ...]:
    """What status says of the servers; the spec says nothing of it."""
    rows = (
        ("server version", before.server_version, after.server_version),
        ("images", ", ".join(before.images), ", ".join(after.images)),
        ("replicas", str(before.replicas), str(after.replicas)),
    )
    return tuple(
        f"{name}: {a or 'not known'} -> {b or 'not known'}" for name, a, b in rows if a != b
    )


def _conclude(
    measure: Measure, cells: Sequence[CellComparison], tolerance: float
) -> tuple[bool | None, str]:
    what = measure_text(measure.metric, measure.statistic)
    limit = share(tolerance)
    if not cells:
        return None, "Not conclusive: the runs have no cell in common."
    worse = [cell for cell in cells if cell.change is Change.WORSE]
    if worse:
        where = _where(len(worse), len(cells))
        return True, f"Regression: {what} is worse by more than {limit}{where}: {_named(worse)}."
    undecided = [cell for cell in cells if cell.change is Change.NOT_CONCLUSIVE]
    if undecided:
        where = _where(len(undecided), len(cells))
        return None, (
            f"Not conclusive: whether {what} is worse by more than {limit} is open{where}: "
            f"{_named(undecided)}."
        )
    if len(cells) == 1:
        return False, f"No regression: {what} is not worse by more than {limit}: {_named(cells)}."
    counted = Counter(change_text(cell.change, "the tolerance") for cell in cells)
    found = ", ".join(f"{count} {text}" for text, count in counted.items())
    return False, (
        f"No regression: {what} is not worse by more than {limit} in any of {len(cells)} cells: "
        f"{found}."
    )


def _named(cells: Sequence[CellComparison]) -> str:
    texts = [f"{cell.name}{_shift(cell.primary)}" for cell in cells[:_NAMED]]
    more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
    return f"{', '.join(texts)}{more}"


def _shift(found: Difference | None) -> str:
    """The relative difference with its interval, as far as they are known."""
    if found is None or found.relative is None:
        return ""
    sign = "-" if found.relative < 0 else "+"
    return f" ({sign}{share(abs(found.relative), found.relative_half_width)})"


def _where(count: int, of: int) -> str:
    return "" if of == 1 else f" in {count} of {of} cells"
