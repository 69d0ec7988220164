"""The list of behaviours in README.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_behaviour_of_the_list_has_its_tests() -> None:
    rows = [
        line
        for line in (HERE / "README.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| **", "| behaviour", "| ---"))
    ]
    known = {
        name
        for path in HERE.glob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }

    named = {row: re.findall(r"`(test_\w+)`", row) for row in rows}

    assert len(rows) >= 25
    assert [row for row, tests in named.items() if not tests] == []
    assert {test for tests in named.values() for test in tests} - known == set()
