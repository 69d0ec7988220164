"""Variable references in commands and values, and quantities."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tare.devcluster.node.environment import expand
from tare.devcluster.node.quantities import parse_quantity


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("--host=$(IP)", "--host=127.0.0.2"),
        ("$(IP):$(PORT)", "127.0.0.2:8000"),
        ("$$(IP)", "$(IP)"),
        ("$(NOBODY)", "$(NOBODY)"),
        ("$IP ${IP}", "$IP ${IP}"),
    ],
)
def test_references_are_replaced_where_they_are_known(text: str, expanded: str) -> None:
    assert expand(text, {"IP": "127.0.0.2", "PORT": "8000"}) == expanded


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"),
        (2, "2"),
        ("500m", "0.5"),
        ("0.5", "0.5"),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("2Gi", "2147483648"),
    ],
)
def test_a_quantity_is_read_exactly(text: str | int, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)
