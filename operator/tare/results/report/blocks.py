"""What a report is made of, ready to be shown: texts, tables and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

__all__ = ["Badge", "CellPart", "Comparison", "Figure", "Page", "Table", "Tone"]

Tone = Literal["good", "bad", "unsure", "plain"]
"""How a word is coloured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A verdict in one word, and the sentence behind it."""

    name: str
    word: str
    tone: Tone
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with its title, and what to know of it."""

    title: str
    chart: Markup
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of texts; a first column of names, numbers behind it."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    tones: Sequence[Tone] = ()
    """Of the last column's words, row by row; empty when it has none."""
    marked: int | None = None
    """The row that stands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPart:
    """Everything about one cell."""

    anchor: str
    name: str
    badge: Badge
    concerns: Sequence[str]
    figures: Sequence[Figure]
    tables: Sequence[Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The run beside its baseline."""

    baseline: str
    message: str
    notes: Sequence[str]
    """What differs besides the numbers, and why cells are not compared."""
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole report."""

    title: str
    model: str
    facts: Sequence[tuple[str, str]]
    badges: Sequence[Badge]
    verdict: str
    goals: Table | None
    comparison: Comparison | None
    results: Table
    concerns: Sequence[str]
    figures: Sequence[Figure]
    cells: Sequence[CellPart]
    left_out: int
    """Cells without a part of their own."""
    notes: Sequence[str]
    metrics: Sequence[tuple[str, str]]
    """Names and definitions of the metrics that are shown."""
    manifest: str
    version: str
    """Of the Tare that wrote it."""
