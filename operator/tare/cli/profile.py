"""`tare profile`: `tare run` with options alone, under the name that AIPerf gives it.

So a command line of AIPerf's pages runs here when its first word is another one.
"""

from __future__ import annotations

from typing import Any

import click

from tare.cli.flag_options import flag_options
from tare.cli.run import run_flags
from tare.cli.run_options import EXIT_CODES, run_options

__all__ = ["command"]


@click.command("profile", epilog=EXIT_CODES)
@run_options
@flag_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Run a benchmark that options describe on an embedded cluster, as `aiperf profile` does.

    The same as `tare run` without a FILE. Progress goes to standard error, results to standard
    output; --dry-run prints the manifest for `kubectl apply` and `tare run FILE`.
    """
    run_flags(context, given)
