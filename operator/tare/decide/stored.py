"""Reading a stored BenchmarkRun into the values that decisions work on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tare.decide.attempt import Attempt
from tare.decide.facts import Run
from tare.plan.trials import schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.decide.acceptance import Accepted

__all__ = ["is_finished", "run_of"]

_MUTABLE = ("suspend", "cancel", "ttlSecondsAfterFinished", "activeDeadlineSeconds")


def run_of(document: Mapping[str, Any], accepted: Accepted) -> Run:
    """Combine what was accepted at the start with the object as it is stored now."""
    metadata, spec = document["metadata"], document["spec"]
    status = document.get("status") or {}
    trials = accepted.spec.trials
    return Run(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        spec=accepted.spec,
        cells=accepted.cells,
        schedule=schedule(
            len(accepted.cells), trials.count, trials.order, accepted.spec.dataset.seed
        ),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        suspend=bool(spec.get("suspend")),
        cancel=bool(spec.get("cancel")),
        deadline_seconds=spec.get("activeDeadlineSeconds"),
        spec_changed=_frozen(spec) != _frozen(accepted.document),
        start_time=_epoch(status.get("startTime")),
        attempt=Attempt.from_json(status.get("current")),
    )


def is_finished(status: Mapping[str, Any]) -> bool:
    """Whether a run has come to its end."""
    return any(
        condition["type"] == "Finished" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )


def _frozen(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in _MUTABLE}


def _epoch(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()
