"""From what goes wrong in a command to what its user sees: one sentence and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.cli.embedded import EmbeddedError
from tare.cli.exits import Exit
from tare.cli.interrupt import run_interruptible
from tare.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rich.console import Console

__all__ = ["complain", "run_session"]


def run_session(main: Coroutine[Any, Any, int], console: Console) -> int:
    """Run a command's coroutine; returns the exit code of the command."""
    try:
        return run_interruptible(main)
    except (EmbeddedError, KubeError) as error:
        complain(console, error)
    except TimeoutError:
        complain(console, "The run was not finished in the time of --timeout and was cancelled.")
    return Exit.FAILED


def complain(console: Console, error: object) -> None:
    """Print what went wrong; its text is nobody's markup."""
    console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
