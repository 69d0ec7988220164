"""`tare run`: a manifest, or the one that flags build, on an embedded cluster.

For a laptop and for CI: the same operator and workers as in a cluster, without one, against servers
that are reachable from here. The exit code says what the run came to. `tare profile` is the same
without a file (`cli.profile`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from tare.cli.embedded import embedded
from tare.cli.exits import Exit
from tare.cli.flag_check import load_flags, show_manifest
from tare.cli.flag_options import flag_options, read_flags, used_flags
from tare.cli.manifests import ManifestError
from tare.cli.outcome import show_outcome
from tare.cli.progress import Progress
from tare.cli.run_file import load_run
from tare.cli.run_options import EXIT_CODES, run_options
from tare.cli.session import complain, run_session
from tare.cli.watch import apply, follow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tare.cli.run_file import RunFile

__all__ = ["command", "run_flags"]


@click.command("run", epilog=EXIT_CODES)
@click.argument("file", required=False)
@run_options
@flag_options
@click.pass_context
def command(context: click.Context, /, file: str | None, **given: Any) -> None:
    """Run the BenchmarkRun in FILE ('-' for standard input) on an embedded cluster.

    Without FILE the run is what the options from --model on say. Progress goes to standard error,
    results to standard output.
    """
    if file is None:
        run_flags(context, given)
        return
    if used := used_flags(context):
        message = f"{', '.join(used)}: FILE says this already; write it there, or leave FILE out"
        raise click.UsageError(message, context)
    _run_checked(context, given, lambda: _load_file(file, given["urls"]))


def run_flags(context: click.Context, given: dict[str, Any]) -> None:
    """Run what a command's options say, or show its manifest with `--dry-run`."""
    flags = read_flags(context, given)
    if not given["dry_run"]:
        _run_checked(context, given, lambda: load_flags(flags))
        return
    try:
        manifest, advice = show_manifest(flags)
    except ManifestError as error:
        complain(Console(stderr=True), error)
        context.exit(Exit.INVALID)
    click.echo(manifest, nl=False)
    if advice:
        click.echo(advice, err=True)


def _load_file(file: str, urls: Sequence[str]) -> RunFile:
    run_file = load_run(file, urls=urls)
    if not run_file.urls:
        raise ManifestError(
            f"{file}: spec.endpoint.service names a Service, and the embedded cluster has none; "
            "say where the server is with --url http://HOST:PORT"
        )
    return run_file


def _run_checked(
    context: click.Context, given: dict[str, Any], load: Callable[[], RunFile]
) -> None:
    """Load a run and carry it out; one that is refused ends here."""
    console = Console(stderr=True)
    try:
        run_file = load()
    except ManifestError as error:
        complain(console, error)
        context.exit(Exit.INVALID)
    main = _run(run_file, console, given["timeout"], given["export"])
    context.exit(run_session(main, console))


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
