"""Files that results are written to; which of them can be is checked before a run, not after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tare.results.export import FORMATS, format_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.results.document import RunResults

__all__ = ["ENDINGS", "ExportError", "export_option", "known_format", "write_results"]

F = TypeVar("F", bound="Callable[..., Any]")

ENDINGS = ", ".join(FORMATS)
"""Of files that can be written."""


class ExportError(Exception):
    """A file was not written; `str()` says which one and why."""


def known_format(
    context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse files that nothing can be written to; a callback of click's."""
    for path in paths:
        if format_of(path.name) is None:
            message = f"'{path}' ends in none of {ENDINGS}"
            raise click.BadParameter(message, ctx=context, param=parameter)
        if not path.parent.is_dir():
            raise click.BadParameter(f"there is no folder '{path.parent}'", context, parameter)
    return paths


def export_option(command: F) -> F:
    """Give a command `--export`."""
    option = click.option(
        "--export",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        callback=known_format,
        metavar="FILE",
        help="Write the results to this file too; its ending says what: "
        f"{ENDINGS}. May be repeated.",
    )
    return option(command)


def write_results(results: RunResults, paths: Sequence[Path]) -> None:
    """Write each file as its ending says; one that cannot be written stops none of the others.

    Raises:
        ExportError: one or several could not be written.
    """
    failures = []
    for path in paths:
        write = format_of(path.name)
        assert write is not None
        try:
            path.write_bytes(write(results))
        except OSError as error:
            failures.append(f"{path} was not written: {error.strerror}")
    if failures:
        raise ExportError("\n".join(failures))
