"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# Machines are noisy, and no test here depends on wall time.
settings.register_profile("tare", deadline=None)
settings.load_profile("tare")

pytest_plugins = ["support.certificates", "support.cluster"]
