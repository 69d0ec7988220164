"""`tare operator`: the operator as a process.

Exit code 0 after SIGTERM or SIGINT, 2 for settings that cannot be used. Kopf is stopped by these
signals, never by cancelling its task: then its clean-up runs, and held requests end in order.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import uuid
from typing import TYPE_CHECKING

import uvloop

from tare.runtime.kopf_app import run_operator
from tare.runtime.process import Process
from tare.runtime.settings import Settings, SettingsError, from_environment
from tare.telemetry.clock import SystemClock
from tare.telemetry.log import configure

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_BAD_SETTINGS = 2
_YOUNG_OBJECTS = 20_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the operator until a signal ends it."""
    del argv  # everything is set by environment variables
    configure()
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"tare operator: {error}\n")
        return _BAD_SETTINGS
    _spare_the_collector()
    uvloop.run(_run(settings))
    return 0


def _spare_the_collector() -> None:
    """Leave what was imported out of garbage collections, and make them rarer.

    A full one stopped everything for 0.1 s, and all of them took a quarter of the CPU time; almost
    everything that is allocated later is freed by its reference count.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)


async def _run(settings: Settings) -> None:
    # The pod's name, or the host's, makes the id readable; the rest makes it this process's own.
    operator_id = f"{os.environ.get('POD_NAME') or os.uname().nodename}-{uuid.uuid4().hex[:8]}"
    process = Process(settings, SystemClock(), operator_id)
    in_cluster = "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ
    logging.getLogger(__name__).info("operator %s starts", operator_id)
    await run_operator(
        process,
        operator_id=operator_id,
        namespaces=settings.namespaces,
        in_cluster=in_cluster,
        watch_timeout=settings.watch_timeout,
    )
