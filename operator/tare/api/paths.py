"""Walk a plain JSON document by the paths that messages show: `phases[0].rate`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Step", "join", "matches"]

Step = str | int

_PLAIN = re.compile(r"[\w.-]+(\[\])?")


def join(steps: Sequence[Step]) -> str:
    """Write steps as a path; unusual names are quoted, as `labels["tare.dev/run"]`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not _PLAIN.fullmatch(step):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text


def matches(document: Any, pattern: str) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Yield path and value of everything that `pattern` finds; `[]` stands for each list item.

    What is not there, or has another shape than the pattern thinks, is not found.
    """
    found: list[tuple[tuple[Step, ...], Any]] = [((), document)]
    for part in pattern.split("."):
        name = part.removesuffix("[]")
        found = [
            ((*path, name), value[name])
            for path, value in found
            if isinstance(value, dict) and name in value
        ]
        if part.endswith("[]"):
            found = [
                ((*path, index), item)
                for path, value in found
                if isinstance(value, list)
                for index, item in enumerate(value)
            ]
    yield from found
