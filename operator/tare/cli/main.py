"""`tare`: one command for each thing that people do.

Commands are imported when they are run: `tare --help` and `tare validate` in a pre-commit hook
should not wait for the packages of an embedded cluster. Exit codes are the same for all of them
(`cli.exits`).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import cast

import click

from tare import __version__
from tare.telemetry.overriding import override

__all__ = ["main"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a command is, and what `tare --help` says of it."""

    place: str
    help: str


_COMMANDS = {
    "demo": _Entry("demo:command", "Benchmark two simulated servers on an embedded cluster."),
    "run": _Entry("run:command", "Run a manifest on an embedded cluster against your servers."),
    "profile": _Entry("profile:command", "The same from options alone, as `aiperf profile`."),
    "plan": _Entry("plan:command", "Say what the caches will hold in each phase, offline."),
    "compare": _Entry("compare:command", "Compare a finished run with an earlier one."),
    "report": _Entry("report:command", "Write a finished run as one HTML page."),
    "validate": _Entry("validate:command", "Check manifests offline, as the operator would."),
    "crd": _Entry("crd:command", "Print the CustomResourceDefinition."),
    "sim": _Entry("sim:sim", "Simulated inference servers."),
}
_ROLES = """
\b
Roles, started by containers:
  tare operator   the operator: one process for the whole cluster
  tare worker     the load generator: one pod for each worker of a run
"""


class _Commands(click.Group):
    """A group that imports a command when it is asked for."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer meets them."""
        del ctx
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        del ctx
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        found = getattr(importlib.import_module(f"tare.cli.{module}"), attribute)
        return cast("click.Command", found)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])


@click.group(cls=_Commands, epilog=_ROLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="tare %(version)s")
def main() -> None:
    """Benchmark LLM inference services honestly: zero the scale before weighing."""
