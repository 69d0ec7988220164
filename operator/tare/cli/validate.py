"""`tare validate`: check manifests offline, with the operator's own check.

Only the operator's allow-list of targets is left out, since it belongs to one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from tare.api import names
from tare.cli.exits import Exit
from tare.cli.manifests import ManifestError, name_of, read_documents
from tare.decide.acceptance import Accepted, accept, warnings_of
from tare.net.allowlist import AllowList

__all__ = ["command", "runs_in"]


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Check the BenchmarkRuns in each FILE ('-' for standard input) without a cluster.

    Other objects in the same file are passed over. Prints what is wrong as `path: message` and
    exits with 2, or one line for each run that the operator would accept.
    """
    results = [_check(source) for source in files]
    if not all(results):
        ctx.exit(Exit.INVALID)


def _check(source: str) -> bool:
    """Check one file; True when there is a run in it and all of them are valid."""
    try:
        runs = list(runs_in(source))
    except ManifestError as error:
        click.echo(str(error), err=True)
        return False
    if not runs:
        click.echo(
            f"{source}: no {names.KIND} in it; expected apiVersion: {names.API_VERSION}", err=True
        )
        return False
    reports = [_report(run) for run in runs]
    return all(reports)


def runs_in(source: str) -> Iterator[Any]:
    """Yield what is, or was meant to be, a BenchmarkRun."""
    for document in read_documents(source):
        if not isinstance(document, Mapping):
            yield document
            continue
        group = str(document.get("apiVersion", "")).partition("/")[0]
        if group == names.GROUP or document.get("kind") == names.KIND or "kind" not in document:
            yield document


def _report(run: Any) -> bool:
    outcome = accept(run, allow_targets=AllowList.everything())
    if not isinstance(outcome, Accepted):
        for problem in outcome.problems:
            click.echo(str(problem), err=True)
        return False
    name = name_of(run)
    cells, trials = len(outcome.cells), outcome.spec.trials.count
    click.echo(f"{name}: valid, {_count(cells, 'cell')} x {_count(trials, 'trial')}")
    for warning in warnings_of(outcome.cells):
        click.echo(f"{name}: warning: {warning}")
    return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
