"""`spec.sweep` and `spec.trials`: which cells are measured, how often and in which order.

Only the shape is described here; `plan.sweep` expands it and knows which paths may vary.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from tare.api.fields import ATOMIC, FreeForm, Model, Rule

__all__ = ["MAX_CELLS", "MAX_TRIALS", "Scenario", "Sweep", "Trials"]

MAX_CELLS = 500
MAX_TRIALS = 20

SweepPath = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Axis = Annotated[list[Any], Field(min_length=1, max_length=MAX_CELLS, json_schema_extra=ATOMIC)]
Axes = Annotated[dict[SweepPath, Axis], Field(min_length=1, max_length=16)]

_FORMS = ("grid", "zip", "scenarios", "search")


class Scenario(Model):
    """One point of the sweep, written out."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """Name of the cell."""
    set: Annotated[dict[SweepPath, Any], Field(max_length=64)]
    """Path of the spec to its value; empty for the spec as it is."""


class Sweep(Model):
    """Variations of the spec; each is a cell."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [form]} for form in _FORMS]}
    )

    RULES = (
        Rule(
            holds=lambda sweep: sum(getattr(sweep, form) is not None for form in _FORMS) == 1,
            message="give exactly one of grid, zip, scenarios and search",
        ),
    )

    grid: Axes | None = None
    """Path of the spec to its values; every combination is a cell, the last path fastest."""
    zip: Axes | None = None
    """Path of the spec to its values; the first ones together, the second ones together, …"""
    scenarios: (
        Annotated[
            tuple[Scenario, ...],
            Field(min_length=1, max_length=MAX_CELLS, json_schema_extra=ATOMIC),
        ]
        | None
    ) = None
    """Cells written out one by one."""
    search: FreeForm | None = None
    """Look for the highest load that meets the goals."""
    cool_down_seconds: Annotated[float, Field(ge=0, le=86_400)] = 0
    """Pause between two trials."""


class Trials(Model):
    """Repetitions of each cell."""

    count: Annotated[int, Field(ge=1, le=MAX_TRIALS)] = 1
    """Measurements of each cell; three or more give confidence intervals."""
    order: Literal["Sequential", "Interleaved", "Shuffled"] = "Interleaved"
    """Interleaved measures all cells once, then again, so that a drift of the server meets all."""
