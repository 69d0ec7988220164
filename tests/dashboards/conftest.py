"""Tests of dashboards and alerts run a real Prometheus; without one they are left out."""

from __future__ import annotations

import pytest

from support.tools import find

THERE = find("prometheus") and find("promtool")
MISSING = "" if THERE else "prometheus is not installed; on Debian: apt install prometheus"


def pytest_ignore_collect() -> bool | None:
    return True if MISSING else None


def pytest_sessionstart() -> None:
    # Called when this folder was named on the command line: only then is this file read so early.
    if MISSING:
        raise pytest.UsageError(f"tests/dashboards were not run: {MISSING}")
