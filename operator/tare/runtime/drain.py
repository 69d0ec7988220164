"""`python -m tare.runtime.drain`: cancel live runs and wait until none needs the operator any more.

The chart's pre-delete hook runs this while the operator still works: a run that outlives its
operator keeps its finalizer, and perhaps a running profiler. Nothing is deleted; what was measured
stays. The caller's rights are to list and patch BenchmarkRuns, so runs are looked at by listing.
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

import uvloop

from tare.api import names
from tare.decide.stored import is_finished
from tare.kube.client import ApiCluster
from tare.kube.errors import Invalid, KubeError, NotFound, Unavailable
from tare.kube.port import RUN
from tare.telemetry.clock import SystemClock
from tare.telemetry.log import configure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.kube.port import Cluster, Document
    from tare.telemetry.clock import Clock

__all__ = ["drain", "main"]

_LOG = logging.getLogger(__name__)
LOOK = 1.0
"""Seconds between two looks at the runs."""
_OURS = {names.FINALIZER_DRIVER, names.FINALIZER_PROFILER}


async def drain(
    cluster: Cluster, namespaces: Sequence[str], *, clock: Clock, patience: float
) -> tuple[str, ...]:
    """Cancel what is live and wait for it; returns the runs that still need an operator.

    Args:
        cluster: where to list and patch.
        namespaces: where to look; empty for everywhere.
        clock: measures the patience.
        patience: seconds; a profiler's stop alone may take 300.

    Raises:
        KubeError: the API server refused, which waiting will not change.
    """
    deadline = clock.now() + patience
    asked: set[str] = set()
    waiting: tuple[str, ...] = ()
    while True:
        try:
            busy = [run for run in await _runs(cluster, namespaces) if _needs_operator(run)]
            for run in busy:
                await _cancel(cluster, run, asked)
            waiting = tuple(sorted(map(_name, busy)))
        except Unavailable as error:
            _LOG.warning("%s; again", error)
        else:
            if not waiting:
                return ()
        if clock.now() >= deadline:
            return waiting
        await clock.sleep(LOOK)


def main(argv: Sequence[str] | None = None) -> int:
    """Drain as the command line says; 1 when runs are left."""
    options = _parser().parse_args(argv)
    configure()
    namespaces = tuple(filter(None, options.namespaces.split(",")))
    try:
        left = uvloop.run(_drain(namespaces, options.timeout))
    except KubeError as error:
        sys.stderr.write(f"tare drain: {error}\n")
        return 1
    if left:
        sys.stderr.write(
            f"tare drain: after {options.timeout:g} s still not ended: {', '.join(left)}."
            " The operator's log says why; `helm uninstall --no-hooks` does not wait for them\n"
        )
    return 1 if left else 0


async def _drain(namespaces: Sequence[str], patience: float) -> tuple[str, ...]:
    async with ApiCluster.connect() as cluster:
        return await drain(cluster, namespaces, clock=SystemClock(), patience=patience)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tare.runtime.drain", description=__doc__)
    parser.add_argument("--namespaces", default="", help="separated by commas; default: all")
    parser.add_argument("--timeout", type=float, default=540.0, metavar="SECONDS")
    return parser


async def _runs(cluster: Cluster, namespaces: Sequence[str]) -> list[Document]:
    try:
        return [
            run for namespace in namespaces or ("",) for run in await cluster.list(RUN, namespace)
        ]
    except NotFound:
        return []  # without the CRD there are no runs


async def _cancel(cluster: Cluster, run: Document, asked: set[str]) -> None:
    """Set `spec.cancel` once; a run that is finished or being deleted needs no word from us."""
    metadata = run["metadata"]
    if metadata["uid"] in asked or "deletionTimestamp" in metadata or _is_over(run):
        return
    try:
        await cluster.patch(
            RUN, metadata["namespace"], metadata["name"], {"spec": {"cancel": True}}
        )
    except NotFound:
        return
    except Invalid as error:
        # Stored under an older schema; its owner has to delete it.
        _LOG.warning("%s cannot be cancelled: %s", _name(run), error)
    else:
        _LOG.info("%s is cancelled", _name(run))
    asked.add(metadata["uid"])


def _needs_operator(run: Document) -> bool:
    return not _is_over(run) or bool(_OURS & set(run["metadata"].get("finalizers") or ()))


def _is_over(run: Document) -> bool:
    return is_finished(run.get("status") or {})


def _name(run: Document) -> str:
    return f"{run['metadata']['namespace']}/{run['metadata']['name']}"


if __name__ == "__main__":
    sys.exit(main())
