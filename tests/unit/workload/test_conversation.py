"""Lengths of synthetic texts beside their markers."""

from __future__ import annotations

from typing import Any

import pytest

from tare.plan.order import CacheBustOrder, DatasetOrder, Lengths
from tare.workload.conversation import Conversations, DatasetError
from tare.workload.sizes import TokenSizes

MARKER = "[rid:0123456789ab]\n\n"
SIZES = TokenSizes(marker=4)


def texts(target: str = "none", isl: Lengths = Lengths(value=20), **fields: Any) -> Conversations:  # noqa: B008 - frozen
    bust = CacheBustOrder(target=target)  # type: ignore[arg-type]
    dataset = DatasetOrder(
        entries=fields.pop("entries", 100), isl=isl, osl=Lengths(value=4), cache_bust=bust, **fields
    )
    return Conversations(dataset, SIZES)


def words(text: str) -> int:
    return len(text.replace(MARKER, "").split())


@pytest.mark.parametrize(
    ("target", "system", "question"),
    [("none", 30, 20), ("system_prefix", 26, 20), ("first_turn_prefix", 30, 16)],
)
def test_a_marker_takes_its_tokens_from_the_text_that_it_stands_in(
    target: str, system: int, question: int
) -> None:
    marker = None if target == "none" else MARKER
    messages = texts(target, shared_system=30).messages(0, marker)
    assert [words(message["content"]) for message in messages] == [system, question]


def test_text_of_the_user_keeps_its_words() -> None:
    (system, question) = texts("system_suffix", system_prompt="Be brief.").messages(0, MARKER)
    assert system["content"].startswith("Be brief.")
    assert words(question["content"]) == 20


def test_profiling_of_an_isolated_warm_up_has_its_full_length() -> None:
    (system, _) = texts("warmup_isolation_system", shared_system=30).messages(0, None)
    assert words(system["content"]) == 30


def test_a_pool_prefix_stays_whole_and_the_question_gives_way() -> None:
    pool: dict[str, Any] = {"pool_size": 3, "pool_length": 10}
    (plain,) = texts(**pool).messages(5, None)
    (marked,) = texts("first_turn_prefix", **pool).messages(5, MARKER)
    assert marked["content"] == MARKER + " ".join(plain["content"].split()[:26])


def test_every_prefix_of_a_pool_is_used() -> None:
    conversations = texts(pool_size=3, pool_length=10)
    heads = {
        " ".join(conversations.messages(entry, None)[0]["content"].split()[:10])
        for entry in range(60)
    }
    assert len(heads) == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"target": "first_turn_prefix", "isl": Lengths(value=4)},
            "prompts.isl: 4 tokens have no room",
        ),
        (
            {"target": "system_prefix", "shared_system": 5},
            "sharedSystemLength: 5 tokens have no room",
        ),
        ({"pool_size": 600, "pool_length": 1}, "poolLength: 1 tokens are too few"),
        ({"user_context": 1, "entries": 600}, "userContextLength: 1 tokens are too few"),
    ],
)
def test_a_text_that_is_too_short_is_refused_by_its_field(
    fields: dict[str, Any], message: str
) -> None:
    conversations = texts(**fields)
    marker = MARKER if "target" in fields else None
    with pytest.raises(DatasetError, match=message):
        [conversations.messages(entry, marker) for entry in range(600)]


def test_a_short_draw_of_a_normal_distribution_leaves_room_for_the_marker() -> None:
    conversations = texts("first_turn_prefix", isl=Lengths(mean=8.0, stddev=6.0))
    lengths = [words(conversations.messages(e, MARKER)[0]["content"]) for e in range(100)]
    assert min(lengths) == 3


def test_questions_of_later_turns_differ_from_each_other() -> None:
    conversations = texts()
    questions = {conversations.question(entry, turn) for entry in range(9) for turn in range(1, 9)}
    assert len(questions) == 72
    assert {words(question) for question in questions} == {20}
