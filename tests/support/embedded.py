"""An embedded cluster and an operator of a test module's own.

The session's operator serves many tests at a time; a test that kills its operator, or breaks the
API server under it, takes these.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from support.bed import CRD, SERVER_IMAGE, WORKER_IMAGE, OperatorProcess
from tare.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Embedded", "embedded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What a module shares; each test opens a `Bed` on it."""

    devcluster: DevCluster
    kubeconfig: Path
    operator: OperatorProcess


@contextmanager
def embedded(directory: Path, **environment: str) -> Iterator[Embedded]:
    """Start a cluster; the operator starts with the first bed, with these variables set."""
    command = (sys.executable, "-m", "tare")
    images = {SERVER_IMAGE: command, WORKER_IMAGE: command}
    with DevCluster(crds=[CRD], images=images) as devcluster:
        kubeconfig = devcluster.write_kubeconfig(directory / "kubeconfig")
        operator = OperatorProcess(
            kubeconfig,
            directory,
            allowed_targets=["http://127.0.0.0/8"],
            environment=environment,
        )
        try:
            yield Embedded(devcluster=devcluster, kubeconfig=kubeconfig, operator=operator)
        finally:
            if operator.alive:
                operator.kill()
