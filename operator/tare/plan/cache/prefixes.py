"""Which beginning of a prompt other prompts have too.

Two prompts share exactly the tokens before their first difference. So a prompt is a path: each
level is known by everything that stands before it, and ends where prompts of the same key begin to
differ. A server finds whole blocks only, and always computes the last token of a prompt itself
(https://docs.vllm.ai/en/stable/design/prefix_caching/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from tare.plan.cache.outline import MarkerOutline, Outline, Shape

__all__ = ["ROOT", "Level", "Mark", "Prefixes", "Span"]

_MOST_FRAME: Final = 48
"""Tokens of a template for each message, when nobody says how many they are."""
_DOUBT: Final = 0.1
"""Share by which a text's length may be wrong when words were taken for tokens."""

Mark = tuple[object, ...]
"""What a marker says; prompts with equal ones are marked alike."""


ROOT: Final = ()
"""Key of the template's beginning, which every prompt without a salt has."""


class Span(NamedTuple):
    """A number of tokens that is not known exactly."""

    low: int
    high: int


class Level(NamedTuple):
    """The beginning of a prompt up to where prompts with `key` part."""

    key: Hashable
    low: int
    """Tokens that it has at least."""
    high: int
    part: str
    """What of the prompt lies between the end of the level before and here."""
    own: bool = False
    """The session itself has sent it before, with an earlier turn."""
    unsure: bool = False
    """The same key need not mean the same tokens: it holds an answer of the server."""


class Prefixes:
    """The paths of all prompts of a dataset."""

    def __init__(self, outline: Outline, *, answers_repeat: bool) -> None:
        """Take a dataset.

        Args:
            outline: of the dataset.
            answers_repeat: the same prompt is always answered with the same text.
        """
        self._outline = outline
        self._shapes = outline.shapes()
        self._answers_repeat = answers_repeat

    def shape(self, entry: int) -> Shape | None:
        """Return the shape of an entry; None when it is not described."""
        return self._shapes[entry] if entry < len(self._shapes) else None

    def turns(self, entry: int) -> int:
        """Number of turns of a session."""
        shape = self.shape(entry)
        return len(shape.turns) if shape is not None else 1

    def prompt(self, entry: int, turn: int, mark: Mark | None) -> Span:
        """Return the length of a prompt."""
        shape, outline = self._shapes[entry], self._outline
        frame = outline.frame
        text = outline.text_tokens + sum(question for question, _ in shape.turns[: turn + 1])
        low, high = self._texts(text)
        marker = outline.marker
        if mark is not None and marker is not None:
            less, more = _spread(marker)
            low, high = low - less, high + more
            if outline.verbatim and marker.in_system and marker.tokens:
                # It comes on top, and where it meets the user's text a token may melt or split.
                low, high = low + marker.tokens - 1, high + marker.tokens + 1
        answers = sum(answer + 1 for _, answer in shape.turns[:turn])
        if frame is None:
            most = _MOST_FRAME * (outline.messages + 2 * turn)
            return Span(low, high + most + answers)
        return Span(
            low + frame.total + turn * frame.turn, high + frame.total + turn * frame.turn + answers
        )

    def path(self, entry: int, turn: int, mark: Mark | None) -> list[Level]:
        """Return the levels of a prompt, from its first token to its last."""
        shape = self._shapes[entry]
        levels, key, last = self._first_turn(entry, shape.group, mark)
        end = self.prompt(entry, 0, mark)
        for earlier in range(turn):
            tail = self._outline.frame.tail if self._outline.frame is not None else _MOST_FRAME
            key = (*key, earlier)
            answer = shape.turns[earlier][1]
            low, high = max(end.low - tail, 0), end.high + answer
            levels.append(Level(key, low, high, "history", own=True))
            last = "question"
            end = self.prompt(entry, earlier + 1, mark)
        unsure = turn > 0 and not self._answers_repeat
        # The last token is always computed.
        key = (*key, "whole")
        low, high = max(end.low - 1, 0), max(end.high - 1, 0)
        levels.append(Level(key, low, high, last, unsure=unsure))
        return levels

    def _first_turn(
        self, entry: int, group: int, mark: Mark | None
    ) -> tuple[list[Level], tuple[object, ...], str]:
        """Return the levels that end before the last part does, the whole's key, that part."""
        marker = self._outline.marker
        key: tuple[object, ...] = ROOT
        if marker is not None and marker.salt and mark is not None:
            key = ("salt", mark)
        text, before = 0, "template"
        less = more = 0
        levels = []
        for message, part, tokens, alike in self._parts(entry, group, mark):
            start = self._start(message)
            low, high = self._texts(text)
            # A marker behind a text may melt into its last token.
            melted = 1 if marker is not None and part == mark and marker.at_end else 0
            low = max(low + start.low - melted - less, 0)
            high += start.high + alike + more
            levels.append(Level(key, low, high, before))
            key = (*key, part)
            before = "marker" if part == mark else str(part if isinstance(part, str) else part[0])
            text += tokens
            if marker is not None and part == mark:
                less, more = _spread(marker)
        return levels, key, before

    def _parts(
        self, entry: int, group: int, mark: Mark | None
    ) -> Iterator[tuple[int, str | tuple[object, ...], int, int]]:
        """Yield message, identity, tokens, and how many first tokens others have as well.

        Synthetic text gives up as many tokens as the marker takes.
        """
        outline, marker = self._outline, self._outline.marker
        mark = mark or ()
        shown = marker if mark and marker is not None and not marker.salt else None
        message = 0
        if outline.system:
            here = shown if shown is not None and shown.in_system else None
            cost = 0 if here is None or outline.verbatim else here.tokens
            if here is not None and not here.at_end:
                yield message, mark, here.tokens, max(here.tokens - 1, 0)
            yield message, "system", max(outline.system - cost, 0), 0
            if here is not None and here.at_end:
                yield message, mark, here.tokens, max(here.tokens - 1, 0)
            message += 1
        if outline.context:
            yield message, ("context", entry), outline.context, outline.alike
            message += 1
        here = shown if shown is not None and not shown.in_system else None
        question = self._shapes[entry].turns[0][0] - (here.tokens if here is not None else 0)
        if here is not None and not here.at_end:
            yield message, mark, here.tokens, max(here.tokens - 1, 0)
        if outline.pool:
            yield message, ("pool", group), outline.pool, outline.alike
        yield message, ("question", entry), max(question, 0), outline.alike
        if here is not None and here.at_end:
            yield message, mark, here.tokens, max(here.tokens - 1, 0)

    def _start(self, message: int) -> Span:
        """Return how many tokens the template puts before the text of a message."""
        frame = self._outline.frame
        if frame is None:
            return Span(0, _MOST_FRAME * (message + 1))
        if message < len(frame.starts):
            return Span(frame.starts[message], frame.starts[message])
        return Span(0, frame.total)

    def _texts(self, tokens: int) -> Span:
        """Return how many tokens texts of so many have in truth."""
        if self._outline.exact:
            return Span(tokens, tokens)
        doubt = round(tokens * _DOUBT)
        return Span(tokens - doubt, tokens + doubt)


def _spread(marker: MarkerOutline) -> tuple[int, int]:
    """Return by how many tokens a digest that was not tried may be shorter, or longer."""
    unseen = 1 if marker.less or marker.more else 0
    return marker.less + unseen, marker.more + unseen
