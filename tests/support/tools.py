"""Programs that some tests need and pip does not install: which there are, and running them.

A folder of such tests is left out of a plain `pytest`, so that nothing is skipped there; its
`conftest.py` tells who asks for it by its path what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["find", "run"]

_PLACES = (Path.home() / ".cache" / "test-cluster" / "bin",)
"""Where programs lie that no PATH names: those of the cluster that CI uses."""


def find(program: str) -> str | None:
    """Path of a program, None when it is not installed."""
    places = os.pathsep.join([os.environ.get("PATH", ""), *map(str, _PLACES)])
    return shutil.which(program, path=places)


def run(
    program: str, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return how it ended, whatever that is."""
    path = find(program)
    assert path, f"{program} is not installed"
    return subprocess.run(
        [path, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=None if environment is None else {**os.environ, **environment},
    )
