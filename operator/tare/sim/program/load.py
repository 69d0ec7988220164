"""Programs from files: text by its suffix `.sq`, or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.sim.program.document import parse_document
from tare.sim.program.errors import ProgramError
from tare.sim.program.run import Model
from tare.sim.program.text import parse

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load"]


def load(path: Path) -> Model:
    """Read and check a program.

    Raises:
        ProgramError: the file cannot be read, or is no program that can run.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ProgramError(f"cannot read {path}: {reason}") from None
    return Model(parse_document(text) if path.suffix in (".yaml", ".yml") else parse(text))
