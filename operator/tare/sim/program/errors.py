"""What is wrong in a program: where it stands, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass

from tare.telemetry.overriding import override

__all__ = ["Place", "ProgramError"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in its file; both count from 1."""

    line: int
    column: int


class ProgramError(Exception):
    """A program that cannot be run, or went wrong while it ran; its text is for the user."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.file = ""
        """Set by whoever knows which file was read."""

    @override
    def __str__(self) -> str:
        where = [self.file] if self.file else []
        if self.place:
            where += [str(self.place.line), str(self.place.column)]
        return f"{':'.join(where)}: {self.message}" if where else self.message
