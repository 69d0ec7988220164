"""Measured runs that are stored as a cluster keeps them, for tests of baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tare.kube.port import RUN
from tare.manifests.metadata import Owner
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from tare.kube.port import Cluster
    from tare.results.document import RunResults

__all__ = ["keep", "keep_run"]


async def keep(cluster: Cluster, results: RunResults, *, phase: str = "Succeeded") -> Owner:
    """Store a finished run: the object, its trials, its summary."""
    owner = await keep_run(cluster, results, phase=phase, finished=True)
    store = ResultStore(cluster)
    for trial in results.trials:
        await store.store_trial(replace(trial, run=owner))
    await store.store_summary(replace(results.summary, run=owner))
    return owner


async def keep_run(
    cluster: Cluster, results: RunResults, /, *, phase: str, finished: bool, **status: Any
) -> Owner:
    """Store the object alone."""
    conditions = [{"type": "Finished", "status": "True"}] if finished else []
    told = {**results.run["status"], "phase": phase, "conditions": conditions, **status}
    body = {**results.run, "status": told}
    metadata = (await cluster.create(RUN, "bench", body))["metadata"]
    return Owner(name=metadata["name"], namespace="bench", uid=metadata["uid"])
