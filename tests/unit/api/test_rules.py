"""Rules over several fields: Python and CEL say the same, and each is shown to refuse something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.cel_rules import broken_rules
from support.invalid_manifests import ACCEPTED, INVALID, Refuser, Row, Variation, valid_manifest
from tare.api.schema import spec_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

CEL_ROWS = [row for row in INVALID if row.refused_by is Refuser.CEL]


def all_rules(schema: dict[str, Any]) -> Iterator[dict[str, str]]:
    yield from schema.get("x-kubernetes-validations", ())
    for below in (*schema.get("properties", {}).values(), schema.get("items", {})):
        yield from all_rules(below) if below else ()


RULES = [rule for rule in all_rules(spec_schema()) if "oldSelf" not in rule["rule"]]


@pytest.mark.parametrize("row", CEL_ROWS, ids=lambda row: row.name)
def test_the_api_server_refuses_what_only_several_fields_together_show(row: Row) -> None:
    messages = list(broken_rules(spec_schema(), row.manifest["spec"]))

    assert any(all(part in message for part in row.fragments) for message in messages)


@pytest.mark.parametrize("variation", ACCEPTED, ids=lambda variation: variation.name)
def test_no_rule_refuses_a_valid_manifest(variation: Variation) -> None:
    assert list(broken_rules(spec_schema(), variation.manifest["spec"])) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["message"][:50])
def test_every_rule_has_a_row_in_the_table_that_breaks_it(rule: dict[str, str]) -> None:
    broken = [
        row.name
        for row in CEL_ROWS
        if rule["message"] in broken_rules(spec_schema(), row.manifest["spec"])
    ]

    assert broken, "add a row to tests/support/manifest_rows"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["message"][:50])
def test_a_rule_blames_a_field_that_exists(rule: dict[str, str]) -> None:
    field = rule.get("fieldPath", "").removeprefix(".")
    owners = [node for node in nodes(spec_schema()) if rule in node.get(KEY, ())]

    assert owners
    assert all(not field or field in owner["properties"] for owner in owners)


KEY = "x-kubernetes-validations"


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for below in (*schema.get("properties", {}).values(), schema.get("items", {})):
        if below:
            yield from nodes(below)


def test_the_valid_manifest_of_the_table_breaks_no_rule() -> None:
    assert list(broken_rules(spec_schema(), valid_manifest()["spec"])) == []
