"""The description of a dataset that goes to the operator."""

from __future__ import annotations

from dataclasses import asdict

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.manifest_builder import order_of, phase
from support.virtual_load import describe
from tare.plan.cache.outline import MOST_BYTES, Frame, Outline, Shape, compact

shapes = st.builds(
    Shape,
    turns=st.lists(
        st.tuples(st.integers(1, 9000), st.integers(1, 9000)), min_size=1, max_size=4
    ).map(tuple),
    group=st.integers(0, 50),
)


@given(st.lists(st.tuples(st.integers(1, 5), shapes), min_size=1, max_size=30))
def test_what_is_written_is_read_again(runs: list[tuple[int, Shape]]) -> None:
    text, described = compact(runs)
    entries = sum(count for count, _ in runs)
    assert described == entries
    outline = Outline(entries=entries, runs=text, described=described)
    again = Outline.from_json(orjson.loads(orjson.dumps(asdict(outline))))
    assert again == outline
    assert again.shapes() == [shape for count, shape in runs for _ in range(count)]


def test_a_million_equal_prompts_are_a_few_bytes() -> None:
    text, described = compact([(1_000_000, Shape(turns=((512, 128),)))])
    assert (text, described) == ("1000000*0:512/128", 1_000_000)


def test_a_description_that_would_be_too_long_covers_the_beginning() -> None:
    text, described = compact((1, Shape(turns=((n, 128),))) for n in range(1, 100_000))
    assert len(text) <= MOST_BYTES
    assert 10_000 < described < 100_000


@pytest.mark.parametrize(
    "damage",
    [
        {"runs": "3*0:x/4"},
        {"runs": ""},
        {"runs": "4*0:64/4"},
        {"runs": "-1*0:64/4"},
        {"described": 2},
        {"entries": "3"},
        {"frame": {"starts": [1]}},
        {"more": 1},
    ],
)
def test_what_a_foreign_pod_may_send_is_no_description(damage: dict[str, object]) -> None:
    whole = asdict(Outline(entries=3, runs="3*0:64/4", described=3))
    assert Outline.from_json(whole) is not None
    assert Outline.from_json({**whole, **damage}) is None


def test_the_template_is_measured_by_prompts_that_differ_in_one_place() -> None:
    for prefix, starts, total in (
        ({}, (5,), 12),
        ({"sharedSystemLength": 40}, (5, 12), 19),
        ({"userContextLength": 40}, (5, 12), 19),
    ):
        order = order_of(dataset={"prefixPrompts": prefix}, phases=[phase(requests=3)])
        _, outline = describe(order.dataset, chat=True)
        assert outline.frame == Frame(starts=starts, total=total, turn=14, tail=0)
        assert outline.exact


def test_entries_that_spell_longer_numbers_may_begin_alike() -> None:
    for entries, alike in ((512, 0), (513, 1)):
        order = order_of(dataset={"entries": entries}, phases=[phase(requests=3)])
        assert describe(order.dataset, chat=True)[1].alike == alike
