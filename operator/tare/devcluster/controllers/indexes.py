"""Sets of completion indexes as Jobs write them in their status: `0,2-5,7`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["format_indexes", "parse_indexes"]


def parse_indexes(text: str) -> set[int]:
    """Read `0,2-5,7`; an empty text is the empty set."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Write a set; runs of three or more are written with a dash, pairs as two numbers."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    match run:
        case [only]:
            return str(only)
        case [first, second]:
            return f"{first},{second}"
        case [first, *_, last]:
            return f"{first}-{last}"
        case _:
            return ""
