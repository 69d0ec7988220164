"""Entry point of `tare` and `python -m tare`.

The three long-running roles are dispatched before any command-line library is imported: a worker's
image has none, and 0.1 s of its start would go into one. Everything else is `tare.cli`.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the role or the command that the arguments name; does not return."""
    match sys.argv[1:]:
        case ["worker", *arguments]:
            from tare.worker.main import main as worker  # noqa: PLC0415 - import what is run

            sys.exit(worker(arguments))
        case ["sim", "serve", *arguments]:
            from tare.sim.serve.main import main as serve  # noqa: PLC0415

            sys.exit(serve(arguments))
        case ["operator", *arguments]:
            from tare.runtime.main import main as operator  # noqa: PLC0415

            sys.exit(operator(arguments))
        case arguments:
            from tare.cli.main import main as command  # noqa: PLC0415

            command(arguments, prog_name="tare")


if __name__ == "__main__":
    main()
