"""A context of an operator process at whose borders nothing is real: a clock and a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.silent import SilentNetwork
from tare.manifests.job import WorkerImage
from tare.net.allowlist import AllowList
from tare.results.store import ResultStore
from tare.runtime.claims import Claims
from tare.runtime.context import Context
from tare.runtime.settings import Settings
from tare.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from support.clock import FakeClock
    from tare.kube.port import Cluster

__all__ = ["context_of"]


def context_of(cluster: Cluster, clock: FakeClock) -> Context:
    """A process that is called `tare-0`; its model servers never answer."""
    settings = Settings(
        host="127.0.0.1",
        port=0,
        worker=WorkerImage(image="tare-worker", inbox_url="http://tare:8080"),
        operator_key=b"0123456789abcdef",
        allowed_targets=AllowList(),
    )
    return Context(
        settings=settings,
        cluster=cluster,
        control=SilentNetwork(clock),
        store=ResultStore(cluster),
        metrics=Metrics(),
        clock=clock,
        claims=Claims(cluster),
        operator_id="tare-0",
    )
