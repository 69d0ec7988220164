"""Options of `tare run` and `tare profile` about the run as a whole, whatever it measures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tare.cli.ranges import FiniteRange
from tare.results.export import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EXIT_CODES", "run_options"]

F = TypeVar("F", bound="Callable[..., Any]")

EXIT_CODES = """\
\b
Exit codes:
  0 ok, 1 failed, 2 invalid, 3 goals missed, 4 regression, 5 not conclusive
"""


def _known_format(
    context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse files that nothing can be written to before the run, not after it."""
    for path in paths:
        if path.suffix not in FORMATS:
            message = f"'{path}' ends neither in .json nor in .csv"
            raise click.BadParameter(message, ctx=context, param=parameter)
        if not path.parent.is_dir():
            raise click.BadParameter(f"there is no folder '{path.parent}'", context, parameter)
    return paths


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
_EXPORT = click.option(
    "--export",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_known_format,
    metavar="FILE",
    help="Write the results to this .json or .csv file too; may be repeated.",
)


def run_options(command: F) -> F:
    """Give a command these options."""
    for option in (_EXPORT, _TIMEOUT, _URL):
        command = option(command)
    return command
