"""Lines of Python with indentation, and for each the place in the program that it comes from."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.sim.program.errors import Place

__all__ = ["Source"]


class Source:
    """A Python source text that grows line by line."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._place: Place | None = None

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self._lines.append(" " * self._depth + text)
        if self._place:
            self.places[len(self._lines)] = self._place

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent the lines that are added inside."""
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """Let the lines that are added inside come from `place`."""
        outer, self._place = self._place, place
        yield
        self._place = outer

    def include(self, other: Source) -> None:
        """Add all lines of another source at the current indentation."""
        for number, text in enumerate(other._lines, 1):
            self.line(text)
            if number in other.places:
                self.places[len(self._lines)] = other.places[number]

    def text(self) -> str:
        """Return the whole text."""
        return "\n".join(self._lines) + "\n"
