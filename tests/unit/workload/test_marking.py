"""The payloads of reference seed 000, and what happens where the content is no plain text."""

from __future__ import annotations

from typing import Any

import pytest

from tare.plan.markers import Place
from tare.workload.marking import mark, mark_text

SYSTEM, USER = "You are a helpful assistant.", "What is the capital of France?"
BEFORE, BEHIND = "[rid:a3f9b2c1d4e5]\n\n", "\n\n[rid:a3f9b2c1d4e5]"


def chat(system: Any = SYSTEM, user: Any = USER) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return [message for message in messages if message["content"] is not None]


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}


@pytest.mark.parametrize(
    ("place", "marker", "system", "user"),
    [
        (Place.SYSTEM_START, BEFORE, BEFORE + SYSTEM, USER),
        (Place.SYSTEM_END, BEHIND, SYSTEM + BEHIND, USER),
        (Place.TURN_START, BEFORE, SYSTEM, BEFORE + USER),
        (Place.TURN_END, BEHIND, SYSTEM, USER + BEHIND),
        (Place.SYSTEM_START, "[warmup]\n\n", "[warmup]\n\n" + SYSTEM, USER),
        (Place.TURN_START, "[warmup]\n\n", SYSTEM, "[warmup]\n\n" + USER),
    ],
)
def test_a_marker_changes_one_message_at_its_place(
    place: Place, marker: str, system: str, user: str
) -> None:
    assert mark(chat(), place, marker) == chat(system, user)


@pytest.mark.parametrize(
    ("place", "marker"), [(Place.SYSTEM_START, BEFORE), (Place.SYSTEM_END, BEHIND)]
)
def test_without_a_system_message_the_marker_falls_through_to_the_first_user_turn(
    place: Place, marker: str
) -> None:
    expected = USER + marker if place.at_end else marker + USER
    assert mark(chat(None), place, marker) == chat(None, expected)


@pytest.mark.parametrize(
    ("place", "marker", "content", "expected"),
    [
        (
            Place.TURN_START,
            BEFORE,
            [IMAGE, part("a"), part("b")],
            [IMAGE, part(BEFORE + "a"), part("b")],
        ),
        (
            Place.TURN_END,
            BEHIND,
            [part("a"), part("b"), IMAGE],
            [part("a"), part("b" + BEHIND), IMAGE],
        ),
        (Place.TURN_START, BEFORE, [IMAGE], [part(BEFORE), IMAGE]),
        (Place.TURN_END, BEHIND, [IMAGE], [IMAGE, part(BEHIND)]),
    ],
)
def test_in_a_list_the_marker_joins_the_text_part_at_its_place(
    place: Place, marker: str, content: Any, expected: Any
) -> None:
    assert mark(chat(user=content), place, marker) == chat(user=expected)


def test_a_context_before_the_question_is_not_the_first_user_turn() -> None:
    context = {"role": "user", "content": "You know this."}
    later = [{"role": "assistant", "content": "Paris."}, {"role": "user", "content": "And now?"}]
    marked = mark([context, *chat(None), *later], Place.TURN_START, BEFORE)
    assert marked == [context, *chat(None, BEFORE + USER), *later]


def test_the_messages_that_were_given_stay_as_they_are() -> None:
    given = chat(user=[part(USER)])
    mark(given, Place.TURN_END, BEHIND)
    assert given == chat(user=[part(USER)])


def test_a_completion_is_marked_before_or_behind_its_text() -> None:
    assert mark_text(USER, Place.TURN_START, BEFORE) == BEFORE + USER
    assert mark_text(USER, Place.TURN_END, BEHIND) == USER + BEHIND
