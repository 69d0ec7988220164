"""`tare sim`: the simulated model server, and programs of pools, stages and sessions.

`tare sim serve` has its own argument parser, for it must run where no CLI library is installed;
here all its arguments are passed through, `--help` among them. `tare sim run` imports the simulator
when it runs, since that brings a parser library.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tare.cli.exits import Exit
from tare.cli.ranges import FiniteRange
from tare.sim.serve.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.sim.program.run import Model

__all__ = ["sim"]

_MISSING = "programs need the extra 'sim': pip install 'tare-operator[sim]'"


@click.group()
def sim() -> None:
    """Simulate an inference server."""


@sim.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def serve(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Serve a simulated model with vLLM's API; `tare sim serve --help` lists its options."""
    context.exit(main(arguments))


@sim.command("predict")
@click.argument("file")
@click.option(
    "--server-model",
    metavar="NAME|FILE",
    help="Server that the load goes to; by default the one that spec.endpoint.model names. "
    "NAME@field=value,… changes some of its fields.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 1000),
    help="Servers; by default as many as endpoint.urls, or cost.replicas, or one.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Repeat the whole run with so many seeds and show the range.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def predict_run(context: click.Context, /, **given: Any) -> None:
    r"""Predict the BenchmarkRun in FILE ('-' for standard input) without any server.

    Its own load is sent in virtual time to simulated servers. A reset empties their caches;
    profilers, stopOn and the client's own delays are left out.

    \b
    Exit codes: 0 ok, 2 invalid, 3 goals missed, 5 not conclusive or unstable.
    """
    from tare.cli.predict import predict  # noqa: PLC0415 - `tare sim serve` does without it

    context.exit(predict(**given))


def _settings(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, float]:
    """Read `NAME=VALUE` as often as it is there."""
    found = {}
    for text in given:
        name, values = _named(context, parameter, text)
        if len(values) != 1:
            raise click.BadParameter(f"{text!r} has more than one value", context, parameter)
        found[name] = values[0]
    return found


def _axis(
    context: click.Context, parameter: click.Parameter, given: str | None
) -> tuple[str, list[float]] | None:
    """Read `NAME=VALUE,VALUE,…`."""
    return None if given is None else _named(context, parameter, given)


def _named(
    context: click.Context, parameter: click.Parameter, text: str
) -> tuple[str, list[float]]:
    name, _, values = text.partition("=")
    try:
        return name.strip(), [float(value) for value in values.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not of the form NAME=NUMBER, as in C=6e4", context, parameter
        ) from None


_RATE = FiniteRange(0, 1000, min_open=True)


def _agents_axis(
    context: click.Context, parameter: click.Parameter, given: str | None
) -> tuple[str, list[float]] | None:
    """Read the same; rates are checked as `--rate` is, and fields by the server model."""
    axis = _axis(context, parameter, given)
    if axis is not None and axis[0] == "rate":
        return axis[0], [_RATE.convert(value, parameter, context) for value in axis[1]]
    return axis


@sim.command("agents")
@click.option(
    "--server-model",
    default="chapter-5",
    show_default=True,
    metavar="NAME|FILE",
    help="Server that the sessions go to.",
)
@click.option(
    "--rate",
    type=_RATE,
    default=0.5,
    show_default=True,
    help="Sessions a second.",
)
@click.option(
    "--sweep",
    "axis",
    callback=_agents_axis,
    metavar="NAME=V1,V2,…",
    help="Run once for each rate, or value of a field of the server model.",
)
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option(
    "--horizon",
    type=FiniteRange(1, 1e7),
    default=20_000.0,
    show_default=True,
    metavar="SECONDS",
    help="Length of a run.",
)
@click.option(
    "--warmup",
    type=FiniteRange(0),
    default=2_000.0,
    show_default=True,
    metavar="SECONDS",
    help="What is left out of means.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def run_agents(context: click.Context, /, **given: Any) -> None:
    r"""Run sessions of agents, that think and come back, on a simulated server.

    Says what a KV memory is worth: how many turns find their context cached, and where the load is
    too much. The sessions are those of the published tutorial. Long runs are compiled where numba
    is installed.

    \b
    Exit codes: 0 ok, 2 invalid, 5 unstable.
    """
    if given["warmup"] >= given["horizon"]:
        raise click.UsageError("--warmup must be shorter than --horizon")
    from tare.cli.agents import agents  # noqa: PLC0415 - `tare sim serve` does without it

    context.exit(agents(**given))


@sim.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help="Give a constant another value; may be repeated.",
)
@click.option(
    "--sweep",
    "axis",
    callback=_axis,
    metavar="NAME=V1,V2,…",
    help="Run once for each value and print one table.",
)
@click.option("--seed", type=click.IntRange(0, 2**53), help="Instead of the program's seed.")
@click.option(
    "--keyed",
    is_flag=True,
    help="Draw by session and turn: runs with other constants see the same workload.",
)
@click.option("--fast", is_flag=True, help="Compile with numba first; pays for long runs.")
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    default=10_000_000,
    show_default=True,
    help="Give a run up after this many events.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def run_program(
    context: click.Context,
    /,
    file: Path,
    overrides: dict[str, float],
    axis: tuple[str, list[float]] | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Run the program in FILE (.sq, or .yaml) in virtual time and print its report.

    The same seed gives the same digits. Exit codes: 0 ok, 2 for a program that cannot be run.
    """
    if importlib.util.find_spec("lark") is None:
        raise click.ClickException(_MISSING)
    if how["fast"] and importlib.util.find_spec("numba") is None:
        raise click.UsageError("--fast needs numba: pip install 'tare-operator[fast]'")
    from tare.sim.program.errors import ProgramError  # noqa: PLC0415 - only this command needs it
    from tare.sim.program.load import load  # noqa: PLC0415

    try:
        model = load(file)
        show = _run if axis is None else _sweep
        click.echo(show(model, axis, overrides, how, as_json=as_json), nl=False)
    except ProgramError as error:
        error.file = str(file)
        click.echo(str(error), err=True)
        context.exit(Exit.INVALID)


def _run(
    model: Model,
    axis: tuple[str, Sequence[float]] | None,
    overrides: dict[str, float],
    how: dict[str, Any],
    *,
    as_json: bool,
) -> str:
    from tare.sim.program.report import as_document, report  # noqa: PLC0415

    del axis
    outcome = model.run(overrides, **how)
    return _as_json(as_document(outcome)) if as_json else report(outcome)


def _sweep(
    model: Model,
    axis: tuple[str, Sequence[float]] | None,
    overrides: dict[str, float],
    how: dict[str, Any],
    *,
    as_json: bool,
) -> str:
    from tare.sim.program.sweep import as_sweep_document, sweep, sweep_table  # noqa: PLC0415

    assert axis is not None
    name, values = axis
    rows = sweep(model, name, values, overrides, **how)
    return _as_json(as_sweep_document(name, rows)) if as_json else sweep_table(name, rows)


def _as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
