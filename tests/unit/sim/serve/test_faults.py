"""Switching misbehaviour on and off."""

from __future__ import annotations

from typing import Any

import pytest

from tare.sim.serve.faults import FaultError, Faults

SECOND = 1_000_000_000


def faults(document: dict[str, Any]) -> Faults:
    made = Faults()
    made.update(document, now_ns=0)
    return made


def test_a_fault_lasts_until_it_is_switched_off() -> None:
    made = faults({"reset": 500})
    assert [fault.answer for _ in range(3) if (fault := made.take("reset", 0))] == [500] * 3
    made.update({"reset": None}, now_ns=0)
    assert made.take("reset", 0) is None
    assert made.served == {"reset": 3}


def test_a_fault_can_be_meant_for_the_next_answers_only() -> None:
    made = faults({"reset": {"answer": "denied", "times": 2}})
    assert [made.take("reset", 0) is not None for _ in range(4)] == [True, True, False, False]


def test_a_fault_can_end_by_itself_after_some_seconds() -> None:
    made = faults({"chat": {"answer": 503, "seconds": 5}})
    assert made.take("chat", 5 * SECOND - 1) is not None
    assert made.take("chat", 5 * SECOND) is None


def test_a_fault_can_be_meant_for_a_share_of_the_answers_that_the_seed_chooses() -> None:
    def wrong(seed: int, replica: int) -> list[bool]:
        made = Faults(seed, replica)
        made.update({"chat": {"answer": 500, "rate": 0.25}}, now_ns=0)
        return [made.take("chat", 0) is not None for _ in range(400)]

    assert 70 < sum(wrong(7, 0)) < 130
    assert wrong(7, 0) == wrong(7, 0)
    assert wrong(7, 0) != wrong(8, 0)
    assert wrong(7, 0) != wrong(7, 1)


def test_points_that_are_not_named_stay_as_they_are() -> None:
    made = faults({"reset": 500})
    made.update({"health": 503}, now_ns=0)
    assert set(made.document()) == {"reset", "health"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a JSON object"),
        ({"rest": 500}, "there is no fault 'rest'; choose from reset,"),
        ({"reset": 200}, "reset: 200 is neither a status from 400 to 599"),
        ({"reset": True}, "reset: True is neither"),
        ({"health": "silent"}, "nor one of hang"),
        ({"reset": {"answer": 500, "time": 1}}, "unknown field 'time'"),
        ({"reset": {"answer": 500, "times": 0}}, "reset.times: 0 is not a whole number above 0"),
        ({"reset": {"answer": 500, "rate": 1.5}}, "reset.rate: 1.5 is not a number above 0 and up"),
        ({"reset": {"answer": 500, "rate": True}}, "reset.rate: True is not a number"),
        ({"reset": {"answer": 500, "seconds": -1}}, "reset.seconds: -1 is not a number above 0"),
    ],
)
def test_a_wrong_document_changes_nothing_and_says_what_is_allowed(
    document: Any, message: str
) -> None:
    made = faults({"reset": 404})
    with pytest.raises(FaultError) as error:
        made.update(document, now_ns=0)
    assert message in str(error.value)
    assert made.document()["reset"]["answer"] == 404
