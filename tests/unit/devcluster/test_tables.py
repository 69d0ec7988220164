"""Durations and cells as `kubectl get` shows them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tare.devcluster.apiserver.tables import custom_columns, human_age, human_duration

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (51 * 3600, "2d3h"),
        (9 * 86400, "9d"),
    ],
)
def test_a_duration_is_written_as_kubectl_does(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "age"), [("2026-01-01T23:59:00Z", "60s"), ("soon", "<unknown>"), (None, "<unknown>")]
)
def test_an_age_counts_from_a_timestamp(text: str | None, age: str) -> None:
    assert human_age(text, NOW) == age


def test_a_custom_column_keeps_numbers_and_leaves_gaps() -> None:
    columns = custom_columns(
        [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Best", "type": "string", "jsonPath": ".spec.size"},
            {"name": "Gone", "type": "string", "jsonPath": ".spec.gone"},
            {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
        ],
        lambda: NOW,
    )
    document = {
        "metadata": {"name": "a"},
        "spec": {"size": 3, "since": "2026-01-01T23:59:00Z"},
    }

    assert [column.cell(document) for column in columns] == ["a", 3, "3", None, "60s"]
