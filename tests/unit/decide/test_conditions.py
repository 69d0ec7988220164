"""Conditions after the API conventions: flips, generations, order, bounds."""

from __future__ import annotations

from typing import Any

from tare.api.reasons import ConditionType, Reason
from tare.decide.conditions import Conditions, timestamp

NOW = 1_796_040_000.0
READY, GOALS = ConditionType.TARGET_READY, ConditionType.GOALS_MET


def begin(stored: list[dict[str, Any]], *, now: float = NOW) -> Conditions:
    return Conditions(stored, now=now)


def test_time_stamps_are_utc_in_whole_seconds() -> None:
    assert timestamp(NOW + 0.9) == "2026-11-30T12:00:00Z"


def test_a_new_condition_is_complete() -> None:
    conditions = begin([])
    conditions.set(READY, True, Reason.TARGET_READY, "two replicas")
    assert conditions.to_json() == [
        {
            "type": "TargetReady",
            "status": "True",
            "reason": "TargetReady",
            "message": "two replicas",
            "lastTransitionTime": "2026-11-30T12:00:00Z",
        }
    ]


def test_none_is_unknown_and_not_true() -> None:
    conditions = begin([])
    conditions.set(GOALS, None, Reason.NOT_CONCLUSIVE)
    found = conditions.get(GOALS)
    assert found is not None
    assert found["status"] == "Unknown"
    assert not conditions.is_true(GOALS)


def test_a_new_message_does_not_move_the_time_of_the_last_transition() -> None:
    first = begin([])
    first.set(READY, False, Reason.TARGET_NOT_READY, "no replica")
    later = begin(first.to_json(), now=NOW + 60)
    later.set(READY, False, Reason.MODEL_NOT_SERVED, "serves another model")
    [condition] = later.to_json()
    assert condition["lastTransitionTime"] == timestamp(NOW)
    assert condition["reason"] == "ModelNotServed"


def test_a_flip_moves_it_also_from_unknown() -> None:
    stored: list[dict[str, Any]] = []
    for step, value in enumerate((None, True, False, None)):
        conditions = begin(stored, now=NOW + step)
        conditions.set(READY, value, Reason.WAITING)
        stored = conditions.to_json()
        assert stored[0]["lastTransitionTime"] == timestamp(NOW + step)


def test_a_flip_there_and_back_within_one_pass_is_none() -> None:
    stored = begin([])
    stored.set(READY, True, Reason.TARGET_READY)
    later = begin(stored.to_json(), now=NOW + 9)
    later.set(READY, False, Reason.WAITING)
    later.set(READY, True, Reason.TARGET_READY)
    assert later.to_json()[0]["lastTransitionTime"] == timestamp(NOW)


def test_conditions_stand_in_one_order_whatever_was_set_first() -> None:
    one, other = begin([]), begin([])
    one.set(GOALS, True, Reason.ALL_MET)
    one.set(READY, True, Reason.TARGET_READY)
    other.set(READY, True, Reason.TARGET_READY)
    other.set(GOALS, True, Reason.ALL_MET)
    assert one.to_json() == other.to_json()


def test_a_condition_of_a_newer_operator_is_carried_on_at_the_end() -> None:
    foreign = {"type": "Later", "status": "True", "reason": "R", "message": ""}
    conditions = begin([foreign])
    conditions.set(READY, True, Reason.TARGET_READY)
    assert [c["type"] for c in conditions.to_json()] == ["TargetReady", "Later"]
    assert conditions.to_json()[-1] == foreign


def test_b105_a_huge_message_is_cut() -> None:
    conditions = begin([])
    conditions.set(READY, False, Reason.TARGET_NOT_READY, "x" * 100_000)
    assert len(conditions.to_json()[0]["message"]) == 1024


def test_the_stored_conditions_are_not_changed_in_place() -> None:
    stored = begin([])
    stored.set(READY, True, Reason.TARGET_READY)
    before = stored.to_json()
    copy = [dict(condition) for condition in before]
    begin(before, now=NOW + 5).set(READY, False, Reason.WAITING)
    assert before == copy
