"""Algebra of field sets: what server-side apply rests on."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tare.devcluster.apiserver.fieldsets import (
    FieldSet,
    describe,
    difference,
    field_set,
    intersection,
    union,
)
from tare.devcluster.apiserver.schema import Schema, compile_structural

TREE = compile_structural(
    {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
            "plain": {"type": "array", "items": {}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
        },
    }
)

names = st.sampled_from(["a", "b", "c"])
documents: st.SearchStrategy[Any] = st.dictionaries(
    names, st.recursive(st.integers(), lambda below: st.dictionaries(names, below, min_size=1))
)


def sets(left: Any, right: Any) -> tuple[FieldSet, FieldSet]:
    free = Schema(preserve_unknown=True)
    return field_set(free, left), field_set(free, right)


def leaves(fields: FieldSet) -> set[str]:
    return set(describe(fields)) if fields else set()


def test_lists_count_as_their_type_says() -> None:
    document = {
        "parts": [{"name": "x", "weight": 1}],
        "tags": ["t"],
        "plain": [1, 2],
        "whole": {"k": "v"},
        "map": {"k": "v"},
    }

    assert field_set(TREE, document) == {
        "f:parts": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:weight": {}}},
        "f:tags": {'v:"t"': {}},
        "f:plain": {},
        "f:whole": {},
        "f:map": {"f:k": {}},
    }


def test_leaves_are_described_as_kubectl_prints_them() -> None:
    fields = field_set(TREE, {"parts": [{"name": "x", "weight": 1}], "tags": ["t"]})

    assert list(describe(fields)) == [
        '.parts[name="x"].name',
        '.parts[name="x"].weight',
        '.tags[="t"]',
    ]


@given(documents)
def test_a_set_minus_itself_is_empty(document: Any) -> None:
    fields, same = sets(document, document)

    assert difference(fields, same) == {}


@given(documents, documents)
def test_a_union_holds_the_leaves_of_both(left: Any, right: Any) -> None:
    one, other = sets(left, right)

    both = union(one, other)

    assert difference(one, both) == {}
    assert difference(other, both) == {}


@given(documents)
def test_an_intersection_with_itself_changes_nothing(document: Any) -> None:
    fields, same = sets(document, document)

    assert leaves(intersection(fields, same)) == leaves(fields)


@given(documents, documents)
def test_a_difference_shares_no_leaf_with_what_was_taken(left: Any, right: Any) -> None:
    one, other = sets(left, right)

    assert not leaves(difference(one, other)) & leaves(other)
