"""A dataset as a prefix cache sees it: lengths and what is shared, without a single prompt.

The first worker posts it when it registers, so it must stay small: sessions that are alike stand
together, and of a dataset with very many different lengths only the beginning is described.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tare.measure.wire import WireError, decode_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MOST_BYTES", "Frame", "MarkerOutline", "Outline", "Shape", "compact"]

MOST_BYTES: Final = 160_000
"""Of the text of all shapes: a registration stays below 200 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one session is: its turns and the prefix that it takes from the pool."""

    turns: tuple[tuple[int, int], ...]
    """Tokens of the question, and tokens asked of the answer, of each turn."""
    group: int = 0
    """Index of its prefix in the pool; 0 without one."""

    def to_text(self) -> str:
        """Write it as `group:question/answer,question/answer`."""
        return f"{self.group}:" + ",".join(f"{q}/{a}" for q, a in self.turns)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` wrote.

        Raises:
            ValueError: it is something else.
        """
        group, _, turns = text.partition(":")
        pairs = (turn.partition("/") for turn in turns.split(","))
        return cls(group=int(group), turns=tuple((int(q), int(a)) for q, _, a in pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerOutline:
    """The cache-bust marker; `plan.markers` says what each word means."""

    kind: Literal["rid", "warmup"]
    in_system: bool
    at_end: bool
    tokens: int
    """Of its text, on average; 0 for a salt."""
    less: int = 0
    """By how many its shortest text is shorter."""
    more: int = 0
    """By how many its longest is longer."""
    salt: bool = False
    by_phase: bool = False
    """Each phase has digests of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Tokens that the server's chat template puts around the texts."""

    starts: tuple[int, ...]
    """Before the text of each message, all earlier template tokens included."""
    total: int
    """Of a prompt of one turn."""
    turn: int = 0
    """Added by each further turn: one answer and one question."""
    tail: int = 0
    """At the end of a prompt, which its continuation does not repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The whole dataset."""

    entries: int
    runs: str
    """Shapes in the order of the entries, as `count*shape`, parted by blanks."""
    described: int
    """Entries that `runs` describes: all of them, unless that would be too long."""
    exact: bool = False
    """Lengths are those that the server counts, but for the marker's own."""
    system: int = 0
    """Tokens of the system message's text; 0 without one."""
    verbatim: bool = False
    """The system message is the user's text: a marker comes on top of it."""
    context: int = 0
    """Tokens of each session's own message before its first question."""
    pool: int = 0
    """Tokens of a prefix of the pool."""
    alike: int = 0
    """First tokens in which texts of different entries may be equal."""
    marker: MarkerOutline | None = None
    frame: Frame | None = None
    """None when the server did not say what its template adds."""
    chat: bool = True
    """Prompts are messages; otherwise one text."""

    @property
    def messages(self) -> int:
        """Messages before the first answer."""
        return 1 + bool(self.system) + bool(self.context)

    @property
    def text_tokens(self) -> int:
        """Tokens of the texts that every prompt has besides its question."""
        return self.system + self.context + self.pool

    def shapes(self) -> list[Shape]:
        """Return the shape of each described entry.

        Raises:
            ValueError: `runs` is damaged; it may come from a foreign pod.
        """
        return [shape for count, shape in self.shape_runs() for _ in range(count)]

    def shape_runs(self) -> list[tuple[int, Shape]]:
        """Return the shapes, each with how many entries in a row have it.

        Raises:
            ValueError: as `shapes`.
        """
        found: list[tuple[int, Shape]] = []
        described = 0
        for run in self.runs.split():
            count, _, text = run.partition("*")
            described += int(count)
            if int(count) < 1 or described > self.entries:
                raise ValueError(f"dataset description: {run!r} does not fit the dataset")
            found.append((int(count), Shape.from_text(text)))
        if not found:
            raise ValueError("dataset description: no entry is described")
        return found

    def with_total(self, tokens: int) -> Outline:
        """Return it with the template's size as the prompts' real lengths tell it."""
        frame = self.frame or Frame(starts=(), total=tokens)
        return replace(self, frame=replace(frame, total=tokens))

    @classmethod
    def from_json(cls, document: Any) -> Outline | None:
        """Read it from a worker's description; None when there is none or it is damaged."""
        if not document:
            return None
        try:
            found: Outline = decode_value(cls, document, "outline")
            if len(found.shapes()) != found.described:
                return None
        except (WireError, ValueError):
            return None
        return found


def compact(shapes: Iterable[tuple[int, Shape]]) -> tuple[str, int]:
    """Return `Outline.runs` and how many entries it describes, within `MOST_BYTES`.

    Args:
        shapes: in the order of the entries, each with how many entries in a row have it.
    """
    texts: list[str] = []
    size = described = 0
    for count, text in _runs(shapes):
        run = f"{count}*{text}"
        size += len(run) + 1
        if size > MOST_BYTES:
            break
        texts.append(run)
        described += count
    return " ".join(texts), described


def _runs(shapes: Iterable[tuple[int, Shape]]) -> Iterator[tuple[int, str]]:
    for shape, equal in groupby(shapes, key=itemgetter(1)):
        yield sum(count for count, _ in equal), shape.to_text()
