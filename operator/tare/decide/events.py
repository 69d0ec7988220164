"""Events from the difference of two statuses: the story that `kubectl describe` tells.

Only what a person would want to know: conditions that turned, cells that ended, trials that had to
be repeated. A pass that changes nothing of that has no events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.actions import Event
from tare.decide.rows import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["events"]

_TOLD = (
    ConditionType.ACCEPTED,
    ConditionType.TARGET_READY,
    ConditionType.SPEC_CHANGE_IGNORED,
    ConditionType.MEASUREMENT_SOUND,
    ConditionType.CACHE_AS_PLANNED,
    ConditionType.SUSPENDED,
    ConditionType.GOALS_MET,
    ConditionType.NO_REGRESSION,
    ConditionType.FINISHED,
)
"""Conditions whose turns are told; the others turn with every trial."""
_GOOD_WHEN_FALSE = (ConditionType.SPEC_CHANGE_IGNORED, ConditionType.SUSPENDED)
_OPEN = {
    ConditionType.NO_REGRESSION: (
        Reason.NOT_CONCLUSIVE,
        Reason.NOT_DECIDABLE,
        Reason.BASELINE_MISSING,
    )
}
"""Reasons with which Unknown is the last word, and not only the first."""
_ENDED = (CellState.MEASURED, CellState.FAILED, CellState.INVALID)


def events(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Event, ...]:
    """Tell what happened between two statuses."""
    return (
        *_conditions(before, after),
        *_cells(before, after),
        *_attempts(before, after),
    )


def _conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Event]:
    known = {c["type"]: _turn(c) for c in before.get("conditions") or ()}
    for condition in after.get("conditions") or ():
        kind, status = condition["type"], condition["status"]
        doubted = status == "Unknown" and kind != ConditionType.CACHE_AS_PLANNED
        doubted = doubted and condition["reason"] not in _OPEN.get(kind, ())
        if kind not in _TOLD or doubted or known.get(kind) == _turn(condition):
            continue
        bad = status == ("True" if kind in _GOOD_WHEN_FALSE else "False")
        if kind == ConditionType.FINISHED:
            bad = after.get("phase") in ("Failed", "PartiallyFailed")
        if kind == ConditionType.MEASUREMENT_SOUND and not bad:
            continue
        message = condition["message"] or f"{kind} is {status}"
        if kind == ConditionType.FINISHED:
            message = f"{after.get('phase')}: {message}"
        yield Event(reason=condition["reason"], message=message, warning=bad)


def _turn(condition: Mapping[str, Any]) -> tuple[str, bool]:
    """What has to change of a condition for an Event: its status, or that it is left open."""
    return condition["status"], condition["reason"] in _OPEN.get(condition["type"], ())


def _cells(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Event]:
    known = {row["index"]: row["state"] for row in before.get("cells") or ()}
    for row in after.get("cells") or ():
        state = row["state"]
        if state not in _ENDED or known.get(row["index"]) == state:
            continue
        where = f"cell {row['index']} ({row['name']})"
        if state == CellState.MEASURED:
            yield Event(reason="CellMeasured", message=f"{where}: {_numbers(row)}")
        else:
            text = f"{where}: {row.get('reason', state)}: {row.get('message', '')}"
            yield Event(reason="CellFailed", message=text, warning=True)


def _numbers(row: Mapping[str, Any]) -> str:
    metrics = row.get("metrics") or {}
    parts = []
    for name, label in (
        ("time_to_first_token_p50", "TTFT p50"),
        ("time_to_first_token_p99", "p99"),
        ("request_latency_p99", "latency p99"),
    ):
        if name in metrics:
            parts.append(f"{label} {value_of(metrics[name]) * 1000:.4g} ms")
    if "request_throughput" in metrics:
        parts.append(f"{value_of(metrics['request_throughput']):.4g} req/s")
    if "goals" in row:
        parts.append(f"goals {row['goals'].lower()}")
    return ", ".join(parts)


def _attempts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Event]:
    verdict = (after.get("current") or {}).get("verdict")
    known = (before.get("current") or {}).get("verdict")
    if not verdict or not verdict["again"] or (known and known["again"]):
        return
    current = after["current"]
    text = f"cell {current['cell']} trial {current['trial']} is repeated: {verdict['message']}"
    yield Event(reason=verdict["reason"], message=text, warning=True)
