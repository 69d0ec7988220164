"""Options of `tare run` and `tare profile` about the run as a whole, whatever it measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from tare.cli.export import export_option
from tare.cli.ranges import FiniteRange

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EXIT_CODES", "run_options"]

F = TypeVar("F", bound="Callable[..., Any]")

EXIT_CODES = """\
\b
Exit codes:
  0 ok, 1 failed, 2 invalid, 3 goals missed, 4 regression, 5 not conclusive
"""


_URL = click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="Benchmark this server, not the target of a FILE; may be repeated.",
)
_TIMEOUT = click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Cancel the run after this time and exit with 1.",
)


def run_options(command: F) -> F:
    """Give a command these options."""
    for option in (export_option, _TIMEOUT, _URL):
        command = option(command)
    return command
