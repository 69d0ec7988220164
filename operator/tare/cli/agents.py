"""What `tare sim agents` prints: one row for each setting, with the range over seeds."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from tare.cli.exits import Exit
from tare.cli.session import complain
from tare.cli.tables import WIDE, plain_table
from tare.results.units import latency, number, share
from tare.sim.models.load import ServerModelError, load_server_model
from tare.sim.predict.agents import PUBLISHED, AgentsOutcome, Span, run_agents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["agents"]

_RATE: Final = "rate"


def agents(
    *,
    server_model: str,
    rate: float,
    axis: tuple[str, list[float]] | None,
    seeds: int,
    horizon: float,
    warmup: float,
    as_json: bool,
) -> Exit:
    """Run agents for each value of the axis and print it; returns the exit code."""
    name, values = axis if axis is not None else (_RATE, [rate])
    fast = importlib.util.find_spec("numba") is not None and horizon * seeds * len(values) > _LONG
    rows = []
    try:
        for value in values:
            swept = PUBLISHED._replace(rate=value if name == _RATE else rate)
            model = load_server_model(
                server_model if name == _RATE else _changed(server_model, name, value)
            )
            outcomes = [
                run_agents(model, swept, horizon=horizon, warmup=warmup, seed=seed, fast=fast)
                for seed in range(1, seeds + 1)
            ]
            rows.append((value, outcomes))
    except ServerModelError as error:
        complain(Console(stderr=True), error)
        return Exit.INVALID
    if as_json:
        print(json.dumps(_document(name, rows), indent=2))  # noqa: T201 - not to be wrapped
    else:
        _show(Console(), f"{server_model}: agents, {seeds} seed{'s' * (seeds > 1)}", name, rows)
    unstable = any(not outcome.stable for _, outcomes in rows for outcome in outcomes)
    return Exit.NOT_CONCLUSIVE if unstable else Exit.OK


_LONG: Final = 100_000.0
"""Simulated seconds from which on compiling pays."""


def _changed(reference: str, field: str, value: float) -> str:
    text = f"{field}={value:.12g}"
    return f"{reference},{text}" if "@" in reference else f"{reference}@{text}"


def _document(name: str, rows: Sequence[tuple[float, list[AgentsOutcome]]]) -> dict[str, Any]:
    return {
        "axis": name,
        "rows": [
            {
                "value": value,
                "stable": all(outcome.stable for outcome in outcomes),
                "runs": [asdict(outcome) for outcome in outcomes],
            }
            for value, outcomes in rows
        ],
    }


def _show(
    console: Console, title: str, name: str, rows: Sequence[tuple[float, list[AgentsOutcome]]]
) -> None:
    table = plain_table(title)
    wide = console.width >= WIDE
    columns = [column for column in _COLUMNS if wide or column[1]]
    table.add_column(name, justify="right", no_wrap=True)
    for heading, _, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Load", no_wrap=True)
    for value, outcomes in rows:
        stable = all(outcome.stable for outcome in outcomes)
        load = Text("stable") if stable else Text("unstable", style="bold red")
        texts = (show(outcomes) for _, _, show in columns)
        table.add_row(number(value, digits=6), *texts, load)
    console.print(table)


def _range(values: Sequence[float]) -> str:
    """Write smallest and largest of several values, the unit once where it is the same."""
    span = Span.of(values)
    low, high = latency(span.low), latency(span.high)
    if len(values) == 1:
        return low
    number_of_low, _, unit = low.partition(" ")
    return f"{number_of_low if high.endswith(f' {unit}') else low} … {high}"


def _mean_of(field: str) -> Callable[[Sequence[AgentsOutcome]], str]:
    def show(outcomes: Sequence[AgentsOutcome]) -> str:
        return f"{Span.of([getattr(outcome, field) for outcome in outcomes]).mean:,.0f}"

    return show


def _first_token(outcomes: Sequence[AgentsOutcome]) -> str:
    known = [o.time_to_first_token for o in outcomes if o.time_to_first_token is not None]
    return _range(known) if known else "-"


_Column = tuple[str, bool, "Callable[[Sequence[AgentsOutcome]], str]"]
_COLUMNS: Final[tuple[_Column, ...]] = (
    ("hit\nrate", True, lambda rows: f"{Span.of([o.hit_rate for o in rows]).mean:.3f}"),
    ("TTFT", True, _first_token),
    ("response", True, lambda rows: _range([o.response for o in rows])),
    ("cached", False, _mean_of("cached")),
    ("evicted\ntokens", False, _mean_of("evicted_tokens")),
    ("pre-\nempted", True, _mean_of("preemptions")),
    ("re-\njected", True, _mean_of("rejected")),
    ("stuck", True, _mean_of("stuck")),
    ("busy", False, lambda rows: share(Span.of([o.busy for o in rows]).mean)),
)
"""Heading, whether it is shown at 80 columns, and its text."""
