"""Settings of all tests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Machines are noisy, and no test here depends on wall time.
settings.register_profile("tare", deadline=None)
settings.load_profile("tare")

pytest_plugins = ["support.certificates", "support.cluster"]


@pytest.fixture(autouse=True)
def _root_logger_restored() -> Iterator[None]:
    """Take away what a test has set up: its stream is closed when the next one logs something."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
