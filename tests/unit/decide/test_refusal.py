"""A refused spec: terminal at once, with all conditions and a message of bounded length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.problems import Problem
from tare.decide.refusal import refuse

if TYPE_CHECKING:
    from tare.decide.actions import Decision

NOW = 1_796_040_000.0


def problems(count: int, message: str = "is 0; use 1 or more") -> list[Problem]:
    return [Problem(path=f"spec.phases[{n}].rate", value=0, message=message) for n in range(count)]


def refused(count: int = 1, stored: dict[str, Any] | None = None, **words: str) -> Decision:
    return refuse(problems(count, **words), stored or {}, now=NOW, generation=4)


def conditions(decision: Decision) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in decision.status["conditions"]}


def test_nothing_is_created_and_the_loop_ends() -> None:
    decision = refused()
    assert decision.finished
    assert decision.actions == ()
    assert decision.commands == {}


def test_the_run_has_failed_and_finished_and_was_never_accepted() -> None:
    found = conditions(refused())
    assert {kind: c["status"] for kind, c in found.items()} == {
        "Accepted": "False",
        "Complete": "False",
        "Failed": "True",
        "Finished": "True",
    }
    assert {c["reason"] for c in found.values()} == {"InvalidSpec"}


def test_the_message_names_path_value_and_what_is_allowed() -> None:
    message = conditions(refused())["Accepted"]["message"]
    assert message == "spec.phases[0].rate: is 0; use 1 or more"


def test_five_problems_are_shown_and_the_rest_is_counted() -> None:
    assert "more" not in conditions(refused(5))["Accepted"]["message"].replace("or more", "")
    message = conditions(refused(8))["Accepted"]["message"]
    assert "spec.phases[4]" in message
    assert "spec.phases[5]" not in message
    assert message.endswith("And 3 more; `tare validate` prints all.")


def test_b105_huge_values_do_not_make_a_huge_status() -> None:
    found = conditions(refused(20, message="x" * 100_000))
    assert all(len(c["message"]) <= 1024 for c in found.values())


def test_the_status_says_when_and_by_whom_and_has_no_start() -> None:
    status = refused(stored={"operator": "tare-0", "phase": "Pending"}).status
    assert (status["phase"], status["reason"]) == ("Failed", "InvalidSpec")
    assert (status["operator"], status["observedGeneration"]) == ("tare-0", 4)
    assert status["finishTime"] == "2026-11-30T12:00:00Z"
    assert "startTime" not in status


def test_it_is_told_as_two_warnings_and_only_once() -> None:
    decision = refused()
    assert [event.warning for event in decision.events] == [True, True]
    assert refused(stored=dict(decision.status)).events == ()


def test_refusing_again_after_a_restart_writes_the_same_status() -> None:
    first = refused(stored={"operator": "tare-0"})
    assert refused(stored=dict(first.status)).status == first.status
