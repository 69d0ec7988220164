"""A sweep over one constant: a row for each value, and what the rows leave out of their means.

A session that is rejected leaves, and with it its long turns: the mean of those that stay looks
better although nothing is. So each value runs a second time with keyed random numbers, by which all
rows see the same sessions and turns, and the mean is taken once more over the turns that *every*
row completed. A row's own mean above that of these same turns is what rejections hid elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tare.sim.program.outcome import Outcome
from tare.sim.program.report import as_document, columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.sim.program.run import Model

__all__ = ["Row", "Same", "as_sweep_document", "sweep", "sweep_table"]

_NOTABLE: Final = 0.01
"""Share of left-out turns from which on the means of rows should not be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """One observation over the turns that every row completed, with keyed random numbers."""

    name: str
    common: int
    """Turns of this observation that are in all rows."""
    mean_common: float | None
    mean_own: float | None
    """Over all turns of this row, with the same random numbers."""
    missing: float
    """Share of the turns of any row that this row has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value of the constant."""

    value: float
    outcome: Outcome
    same: Sequence[Same]


def sweep(
    model: Model,
    name: str,
    values: Sequence[float],
    overrides: Mapping[str, float],
    **how: Any,
) -> list[Row]:
    """Run a program for each value of a constant.

    Args:
        model: the program.
        name: the constant.
        values: at least one.
        overrides: other constants.
        how: `seed`, `keyed`, `fast` and `max_steps` of `Model.run`.

    Raises:
        ProgramError: of any of the runs.
    """
    settings = [{**overrides, name: value} for value in values]
    outcomes = [model.run(constants, **how) for constants in settings]
    keyed = (
        outcomes
        if how.get("keyed")
        else [model.run(constants, **{**how, "keyed": True}) for constants in settings]
    )
    compared = [_compared(model, keyed, index) for index in range(len(model.names.observations))]
    same: list[tuple[Same, ...]] = list(zip(*compared, strict=True))
    by_row = same or [() for _ in values]
    return [
        Row(value=value, outcome=outcome, same=found)
        for value, outcome, found in zip(values, outcomes, by_row, strict=True)
    ]


def _compared(model: Model, outcomes: Sequence[Outcome], index: int) -> list[Same]:
    """Compare one observation over all rows."""
    rows = [outcome.observations[index] for outcome in outcomes]
    turns = [set(row.turns) for row in rows]
    common, all_turns = set.intersection(*turns), set.union(*turns)
    found = []
    for row, own in zip(rows, turns, strict=True):
        samples = [s for s, turn in zip(row.samples, row.turns, strict=True) if turn in common]
        found.append(
            Same(
                name=model.names.observations[index],
                common=len(common),
                mean_common=sum(samples) / len(samples) if samples else None,
                mean_own=row.summary.mean,
                missing=1 - len(own) / len(all_turns) if all_turns else 0.0,
            )
        )
    return found


def sweep_table(name: str, rows: Sequence[Row]) -> str:
    """Lay out a sweep, with a note when its rows are about different turns."""
    first = rows[0].outcome
    heads = [name]
    heads += [found.name for found in first.observations]
    for pool in first.pools:
        heads += [f"{pool.name} {what}" for what in ("evict(n)", "cached", "rejected")]
    heads += [f"{same.name}, same turns" for same in rows[0].same]
    heads.append("turns missing")
    table = columns(heads, (_cells(row) for row in rows))
    worst = max((same.missing for row in rows for same in row.same), default=0.0)
    if worst <= _NOTABLE:
        return table + "\n"
    return (
        f"{table}\n\nnote: the rows are about different turns, up to {worst:.1%} are missing "
        "(rejected sessions leave);\ncompare rows by 'same turns': the mean over turns that every "
        "row completed, all rows with the same draws.\n"
    )


def _cells(row: Row) -> list[str]:
    cells = [f"{row.value:.12g}"]
    cells += [_mean(found.summary.mean) for found in row.outcome.observations]
    for pool in row.outcome.pools:
        cells += [str(pool.evicted_entries), f"{pool.mean_cached:.0f}", str(pool.rejected)]
    cells += [_mean(same.mean_common) for same in row.same]
    cells.append(f"{max((same.missing for same in row.same), default=0.0):.1%}")
    return cells


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def as_sweep_document(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return a sweep as a JSON document."""
    return {
        "sweep": name,
        "rows": [
            {
                "value": row.value,
                "run": as_document(row.outcome),
                "same_turns": {
                    same.name: {
                        "turns": same.common,
                        "mean": same.mean_common,
                        "mean_of_all": same.mean_own,
                        "missing": same.missing,
                    }
                    for same in row.same
                },
            }
            for row in rows
        ],
    }
