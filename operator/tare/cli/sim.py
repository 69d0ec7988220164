"""`tare sim`: the simulated model server, as it shows in the help of `tare`.

`tare sim serve` has its own argument parser, for it must run where no CLI library is installed;
here all its arguments are passed through, `--help` among them.
"""

from __future__ import annotations

import click

from tare.sim.serve.main import main

__all__ = ["sim"]


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
