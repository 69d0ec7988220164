"""Tests of the chart run Helm; without it they are left out."""

from __future__ import annotations

import pytest

from support.tools import find

MISSING = "" if find("helm") else "helm is not installed; see https://helm.sh/docs/intro/install"


def pytest_ignore_collect() -> bool | None:
    return True if MISSING else None


def pytest_sessionstart() -> None:
    # Called when this folder was named on the command line: only then is this file read so early.
    if MISSING:
        raise pytest.UsageError(f"tests/chart were not run: {MISSING}")
