"""`tare run`: any manifest on an embedded cluster, against servers that are reachable from here.

For a laptop and for CI: the same operator and workers as in a cluster, without one. The exit code
says what the run came to.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from tare.cli.embedded import embedded
from tare.cli.exits import Exit
from tare.cli.manifests import ManifestError
from tare.cli.outcome import show_outcome
from tare.cli.progress import Progress
from tare.cli.run_file import load_run
from tare.cli.session import complain, run_session
from tare.cli.watch import apply, follow
from tare.results.export import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.cli.run_file import RunFile

__all__ = ["command"]

_URL_HELP = "Benchmark this server instead of the manifest's target; may be repeated."


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


@click.command("run")
@click.argument("file")
@click.option("--url", "urls", multiple=True, metavar="URL", help=_URL_HELP)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Cancel the run after this time and exit with 1.",
)
@click.option(
    "--export",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_known_format,
    metavar="FILE",
    help="Write the results to this .json or .csv file too; may be repeated.",
)
@click.pass_context
def command(
    context: click.Context,
    file: str,
    urls: tuple[str, ...],
    timeout: float | None,
    export: tuple[Path, ...],
) -> None:
    r"""Run the BenchmarkRun in FILE ('-' for standard input) on an embedded cluster.

    Progress goes to standard error, results to standard output.

    \b
    Exit codes: 0 ok, 1 failed, 2 invalid, 3 goals missed, 4 regression, 5 not conclusive.
    """
    console = Console(stderr=True)
    try:
        run_file = load_run(file, urls=urls)
    except ManifestError as error:
        complain(console, error)
        context.exit(Exit.INVALID)
    if not run_file.urls:
        complain(
            console,
            f"{file}: spec.endpoint.service names a Service, and the embedded cluster has none; "
            "say where the server is with --url http://HOST:PORT",
        )
        context.exit(Exit.INVALID)
    context.exit(run_session(_run(run_file, console, timeout, export), console))


async def _run(
    run_file: RunFile, console: Console, limit: float | None, export: Sequence[Path]
) -> int:
    async with embedded(
        namespaces=[run_file.namespace], allowed_targets=run_file.origins
    ) as cluster:
        with Progress(console) as progress:
            progress.say("The embedded cluster and the operator are ready.")
            stored = await apply(cluster, run_file)
            finished = await follow(cluster, stored, progress, limit=limit)
        return await show_outcome(Console(), cluster.cluster, finished, export=export)
