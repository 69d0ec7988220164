"""`tare report`: the results of a finished run as one HTML page, or for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from tare.cli.exits import Exit
from tare.cli.export import ENDINGS, ExportError, known_format, write_results
from tare.cli.session import complain, run_session
from tare.cli.source import SourceError, namespace_option, read_source

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command("report")
@click.argument("source")
@namespace_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    callback=known_format,
    metavar="FILE",
    help=f"Write to this file, as its ending says: {ENDINGS}. May be repeated; the "
    "run's name with .html unless said.",
)
@click.pass_context
def command(
    context: click.Context, /, source: str, namespace: str | None, outputs: Sequence[Path]
) -> None:
    """Write a report on SOURCE, a finished run.

    SOURCE is [NAMESPACE/]NAME of a BenchmarkRun in the cluster of KUBECONFIG, or a .json.gz file
    that `tare run --export` or this command wrote. The page is one file that loads nothing:
    verdicts, goals, every cell with its confidence intervals and charts, what was done to the
    servers, and the manifest.
    """
    console = Console(stderr=True)
    context.exit(run_session(_report(source, namespace, outputs, console), console))


async def _report(
    source: str, namespace: str | None, outputs: Sequence[Path], console: Console
) -> int:
    try:
        results = await read_source(source, namespace)
    except SourceError as error:
        complain(console, error)
        return Exit.INVALID
    paths = outputs or [Path(f"{results.summary.run.name}.html")]
    try:
        write_results(results, paths)
    except ExportError as error:
        complain(console, error)
        return Exit.FAILED
    for path in paths:
        click.echo(path)
    return Exit.OK
