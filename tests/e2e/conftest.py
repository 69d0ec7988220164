"""End-to-end tests run on a real cluster that was given to them; without one they are left out."""

from __future__ import annotations

import os

import pytest

from support.tools import find

GIVEN = os.environ.get("TARE_TEST_CLUSTER") and os.environ.get("KUBECONFIG")
if not GIVEN:
    MISSING = (
        "they need a cluster that they may fill, with the images of `make image` on it;"
        " then: KUBECONFIG=... TARE_TEST_CLUSTER=1 pytest tests/e2e"
    )
elif not find("helm"):
    MISSING = "helm is not installed; see https://helm.sh/docs/intro/install"
else:
    MISSING = ""


def pytest_ignore_collect() -> bool | None:
    return True if MISSING else None


def pytest_sessionstart() -> None:
    # Called when this folder was named on the command line: only then is this file read so early.
    if MISSING:
        raise pytest.UsageError(f"tests/e2e were not run: {MISSING}")
