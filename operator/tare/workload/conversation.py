"""The texts of synthetic sessions, with their markers, at the lengths that were asked for.

A marker takes its tokens from the synthetic text that it stands in, so that the length on the wire
stays what was asked for; text that the user wrote is sent whole, the marker comes on top. Only
prompts that have the marker are shortened.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tare.plan.lengths import draw
from tare.plan.markers import marker_of
from tare.plan.stream import integer_below
from tare.workload.marking import mark, mark_text
from tare.workload.synthetic import SyntheticPrompts

if TYPE_CHECKING:
    from tare.plan.markers import Marker
    from tare.plan.order import DatasetOrder
    from tare.workload.sizes import TokenSizes

__all__ = ["Conversations", "DatasetError", "lengths_of"]

_PREFIXES: Final = 16
"""Prefixes of the pool that are kept; larger pools make some anew."""
_FEWEST = 3
"""Words that tell every text from the others."""


class DatasetError(ValueError):
    """A dataset cannot be made as ordered; the message names the field."""


class Conversations:
    """Writes the sessions of a dataset."""

    def __init__(self, dataset: DatasetOrder, sizes: TokenSizes) -> None:
        self._dataset = dataset
        self._prompts = SyntheticPrompts(dataset.seed)
        self.marker: Marker | None = marker_of(dataset.cache_bust, has_system=dataset.has_system)
        """What the prompts are marked with."""
        self.sizes = sizes
        self._system = lru_cache(maxsize=2)(self._make_system)
        # Thousands of words that are the same for thousands of prompts.
        self._prefix = lru_cache(maxsize=_PREFIXES)(self._make_prefix)

    @property
    def alike(self) -> bool:
        """Whether prompts of all kinds of phases have the same texts, but for their digests."""
        return self.marker is None or self.marker.stands_in("profiling")

    def messages(self, entry: int, marker: str | None) -> list[dict[str, Any]]:
        """Return the messages of a session up to its first question.

        Args:
            entry: index of the session in the dataset.
            marker: its text; None when the prompt has none, or carries it as a salt.

        Raises:
            DatasetError: a text is too short for its marker, or to differ from the others.
        """
        dataset = self._dataset
        marked = marker is not None
        messages: list[dict[str, Any]] = []
        if dataset.has_system:
            messages.append({"role": "system", "content": self._system(marked)})
        if dataset.user_context is not None:
            words = self._prompts.context(entry, dataset.user_context)
            field = "prefixPrompts.userContextLength"
            text = " ".join(self._fit(words, dataset.user_context, field, entry))
            messages.append({"role": "user", "content": text})
        messages.append({"role": "user", "content": self._first_question(entry, marked=marked)})
        if marker is None or self.marker is None:
            return messages
        return mark(messages, self.marker.place, marker)

    def prompt(self, entry: int, marker: str | None) -> str:
        """Return a session of one turn as the prompt of a completion.

        Raises:
            DatasetError: as for `messages`.
        """
        text = self._first_question(entry, marked=marker is not None)
        if marker is None or self.marker is None:
            return text
        return mark_text(text, self.marker.place, marker)

    def system(self, *, marked: bool) -> str:
        """Return the system prompt, empty without one, as it stands beside a marker if asked."""
        return self._system(marked) if self._dataset.has_system else ""

    def question(self, entry: int, turn: int) -> str:
        """Return a question after the first one."""
        tokens = lengths_of(self._dataset, entry, turn)[0]
        return " ".join(self.sizes.fit(self._prompts.question(entry, turn, tokens), tokens))

    def _make_system(self, marked: bool) -> str:
        dataset = self._dataset
        if dataset.system_prompt is not None:
            return dataset.system_prompt
        assert dataset.shared_system is not None
        tokens = dataset.shared_system
        if marked and self.marker is not None and self.marker.place.in_system:
            tokens = self._room(tokens, "prefixPrompts.sharedSystemLength")
        return " ".join(self.sizes.fit(self._prompts.system(tokens), tokens))

    def _first_question(self, entry: int, *, marked: bool) -> str:
        dataset, field = self._dataset, "prompts.isl"
        tokens = lengths_of(dataset, entry)[0]
        if marked and self.marker is not None and not self.marker.place.in_system:
            tokens = self._room(tokens, field)
        words = self._prompts.question(entry, 0, tokens)
        if dataset.pool_size is None or dataset.pool_length is None:
            return " ".join(self._fit(words, tokens, field, entry))
        index = integer_below(dataset.pool_size, dataset.seed, "pool", entry)
        question = " ".join(self._fit(words, tokens, field, entry, first=False))
        return f"{self._prefix(index, dataset.pool_length)} {question}"

    def _make_prefix(self, index: int, tokens: int) -> str:
        words = self._prompts.prefix(index, tokens)
        return " ".join(self._fit(words, tokens, "prefixPrompts.poolLength", index))

    def _room(self, tokens: int, field: str) -> int:
        """Return what a marker leaves of a text."""
        left = tokens - self.sizes.marker
        if left >= _FEWEST:
            return left
        if self._dataset.isl.mean is not None and field == "prompts.isl":
            return _FEWEST  # As a normal draw is cut off at one token.
        raise DatasetError(
            f"dataset.{field}: {tokens} tokens have no room for the marker, which has "
            f"{self.sizes.marker}; use a longer text"
        )

    def _fit(
        self, words: list[str], tokens: int, field: str, number: int, *, first: bool = True
    ) -> list[str]:
        """Cut words to their tokens; those that spell the number of the text have to stay."""
        fitted = self.sizes.fit(words, tokens, first=first)
        kept = sum(one == other for one, other in zip(fitted[:_FEWEST], words, strict=False))
        if self._prompts.distinct(number, kept):
            return fitted
        raise DatasetError(
            f"dataset.{field}: {tokens} tokens are too few for {self._dataset.entries} distinct "
            "prompts; use longer prompts or fewer entries"
        )


def lengths_of(dataset: DatasetOrder, entry: int, turn: int = 0) -> tuple[int, int]:
    """Return the input and output tokens of a turn of an entry.

    Raises:
        DatasetError: a length below one token.
    """
    lengths = []
    for name, distribution in (("isl", dataset.isl), ("osl", dataset.osl)):
        purpose = f"{name}:{turn}" if turn else name
        tokens = draw(distribution, seed=dataset.seed, entry=entry, purpose=purpose)
        if tokens < 1:
            raise DatasetError(
                f"dataset.prompts.{name}: entry {entry} would have {tokens} tokens; "
                "give lengths of 1 or more"
            )
        lengths.append(tokens)
    return lengths[0], lengths[1]
