"""What decisions store survives the API server: it prunes whatever the CRD does not describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.crd import build_crd
from tare.api.reasons import CellState, Reason
from tare.api.schema import find
from tare.api.status import Headlines
from tare.decide.attempt import (
    Attempt,
    ProfilerMark,
    ProfilerState,
    ResetMark,
    ResetState,
    Verdict,
)
from tare.decide.children import TrialKey
from tare.measure.hooks import Replica
from tare.measure.metrics import HEADLINES

if TYPE_CHECKING:
    from collections.abc import Iterator

STATUS = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]


def pruned(schema: dict[str, Any], value: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    """Yield the paths of a document that a schema does not describe."""
    items: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value)
    for step, below in items:
        here = (*path, step)
        if find(schema, here) is None:
            yield here
        else:
            yield from pruned(schema, below, here)


def test_an_attempt_is_stored_whole() -> None:
    attempt = Attempt(
        key=TrialKey(1, 2, 3),
        started=1.5,
        spawned=2.5,
        faults=1,
        replicas=(Replica(uid="u", name="n", origin="http://10.0.0.1:8000"),),
        reset=ResetMark(state=ResetState.CONFIRMED, message="m"),
        profiler=ProfilerMark(state=ProfilerState.RUNNING, phase=1, last=1, message="m"),
        verdict=Verdict(
            state=CellState.FAILED, reason=Reason.WORKER_LOST, message="m", at=3.5, fatal=True
        ),
    )

    document = {"current": attempt.to_json()}

    assert list(pruned(STATUS, document, ())) == []
    assert Attempt.from_json(document["current"]) == attempt


def test_the_headlines_of_a_row_are_described() -> None:
    names = {metric if stat == "mean" else f"{metric}_{stat}" for metric, stat in HEADLINES}

    assert names <= set(Headlines.model_fields)
