"""CEL rules: what they see of a value, and which functions they may call."""

from __future__ import annotations

from typing import Any

import pytest

from tare.devcluster.apiserver.cel import CompileError, Rule, RuleError, context_of, escape, view
from tare.devcluster.apiserver.schema import compile_structural
from tare.devcluster.apiserver.validation import validate


def rule(text: str, **more: str) -> Rule:
    return Rule.compile({"rule": text, **more})


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("isURL(self)", "http://a:80/x", True),
        ("isURL(self)", "a", False),
        ("isURL(self)", "http://a:port", False),
        ("self.matches('^[0-9]+(ms|s|m|h)$')", "500ms", True),
        ("self.find('[0-9]+') == '12'", "ab12", True),
        ("self.findAll('[0-9]') == ['1', '2']", "1a2", True),
        ("self.isSorted()", [1, 2, 2], True),
        ("self.isSorted()", [2, 1], False),
        ("self.sum() == 3", [1, 2], True),
        ("self.lowerAscii() == 'ab'", "AB", True),
        ("self.all(x, self.exists_one(y, y == x))", [1, 2], True),
        ("[has(self.a), has(self.b)].filter(x, x).size() == 1", {"a": 1}, True),
    ],
)
def test_a_rule_holds_or_not(text: str, value: Any, *, holds: bool) -> None:
    assert rule(text).holds(context_of(value, None)) is holds


def test_a_rule_that_cannot_be_evaluated_says_which() -> None:
    with pytest.raises(RuleError, match=r"evaluating rule: self\.a > 1"):
        rule("self.a > 1").holds(context_of({}, None))


def test_a_rule_that_is_not_cel_does_not_compile() -> None:
    with pytest.raises(CompileError, match="compilation failed"):
        rule("self +")


def test_a_rule_that_names_the_old_value_is_a_transition() -> None:
    assert rule("self == oldSelf").transition
    assert not rule("self == 'oldSelf'").transition


def test_the_message_may_be_an_expression() -> None:
    found = rule("self < 3", messageExpression="'not ' + string(self)")

    assert found.explain(context_of(5, None)) == "not 5"


def test_without_a_message_the_rule_is_the_message() -> None:
    assert rule("self < 3").explain(context_of(5, None)) == "failed rule: self < 3"


def test_a_view_shows_typed_fields_alone_with_escaped_names_and_doubles() -> None:
    schema = compile_structural(
        {
            "type": "object",
            "properties": {
                "namespace": {"type": "string"},
                "a-b": {"type": "integer"},
                "rate": {"type": "number"},
                "list": {"type": "array", "items": {"type": "number"}},
            },
        }
    )

    shown = view(schema, {"namespace": "n", "a-b": 1, "rate": 4, "list": [1], "other": 2})

    assert shown == {"__namespace__": "n", "a__dash__b": 1, "rate": 4.0, "list": [1.0]}
    assert isinstance(shown["rate"], float)


@pytest.mark.parametrize(
    ("name", "escaped"), [("for", "__for__"), ("a__b", "a__underscores__b"), ("plain", "plain")]
)
def test_names_are_escaped_as_kubernetes_does(name: str, escaped: str) -> None:
    assert escape(name) == escaped


MAP = compile_structural(
    {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "size": {
                            "type": "integer",
                            "x-kubernetes-validations": [
                                {"rule": "self >= oldSelf", "message": "must not shrink"}
                            ],
                        },
                    },
                },
            }
        },
    }
)


def test_an_item_of_a_list_map_is_compared_with_the_one_of_its_key() -> None:
    old = {"items": [{"name": "a", "size": 1}, {"name": "b", "size": 9}]}
    moved = {"items": [{"name": "b", "size": 9}, {"name": "a", "size": 2}]}
    shrunk = {"items": [{"name": "b", "size": 8}]}

    assert validate(MAP, moved, old) == []
    [error] = validate(MAP, shrunk, old)
    assert str(error) == 'items[0].size: Invalid value: "integer": must not shrink'


def test_a_rule_on_an_unchanged_value_is_not_asked_again() -> None:
    schema = compile_structural(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]},
                "b": {"type": "integer"},
            },
        }
    )

    assert validate(schema, {"a": 1, "b": 2}, {"a": 1, "b": 1}) == []
    assert validate(schema, {"a": 2, "b": 2}, {"a": 1, "b": 1}) != []
