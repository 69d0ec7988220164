"""One request in a serving engine: its prompt, its answer so far, and who listens to it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.sim.core.memory import Hold

__all__ = ["Generation", "Listener", "State"]


class Listener(Protocol):
    """Who is told of a request's progress."""

    def on_tokens(self, generation: Generation, count: int) -> None:
        """`count` more tokens exist; `generation.finished` tells whether they are the last ones.

        None, once, for a request that the engine gave up (`State.GIVEN_UP`).
        """


class State(Enum):
    """Where a request is."""

    WAITING = auto()
    """For its turn, or for memory; also again, after it was preempted."""
    RUNNING = auto()
    FINISHED = auto()
    ABORTED = auto()
    GIVEN_UP = auto()
    """By the engine, since it had waited for too long."""


class Generation:
    """A request and how far it is; times are those of the engine, in nanoseconds."""

    __slots__ = (
        "_more_keys",
        "cached_tokens",
        "created_cache_tokens",
        "due_at",
        "first_token_at",
        "generated",
        "hold",
        "keys",
        "last_token_at",
        "length",
        "limit",
        "listener",
        "number",
        "position",
        "preemptions",
        "prompt_tokens",
        "state",
        "submitted_at",
        "untold",
    )

    def __init__(
        self,
        *,
        prompt_tokens: int,
        keys: list[int],
        limit: int,
        listener: Listener,
        more_keys: Callable[[int, int], list[int]] | None = None,
    ) -> None:
        """Describe a generation.

        Args:
            prompt_tokens: length of the prompt, at least 1.
            keys: of the prompt's full blocks (`memory.block_keys`), as many as there are.
            limit: tokens to generate, at least 1.
            listener: is told of tokens, from within `Engine.advance`.
            more_keys: gives the keys of the blocks from the first number up to the second, which
                hold generated tokens. Without it nobody else ever finds these blocks.
        """
        self.prompt_tokens = prompt_tokens
        self.keys = keys.copy()
        self.limit = limit
        self.listener = listener
        self._more_keys = more_keys
        self.state = State.WAITING
        self.number = 0
        """Counted by the engine."""
        self.submitted_at = 0
        self.generated = 0
        self.length = prompt_tokens
        """Tokens of the prompt and of the answer so far."""
        self.position = 0
        """Tokens whose keys and values are computed or scheduled."""
        self.cached_tokens = -1
        """Prompt tokens found in the cache; below 0 until the request runs."""
        self.created_cache_tokens = 0
        """Tokens of the full prompt blocks that it computed, with one that it had to compute again
        for the prompt's last token."""
        self.preemptions = 0
        self.first_token_at = 0
        self.last_token_at = 0
        self.due_at = 0
        """When the oldest token was due that the listener has not been told of."""
        self.untold = 0
        self.hold: Hold | None = None

    @property
    def finished(self) -> bool:
        """Whether all tokens are generated."""
        return self.state is State.FINISHED

    def keys_between(self, first: int, last: int) -> list[int]:
        """Return the keys of the full blocks `first` up to, but without, `last`."""
        known = len(self.keys)
        if last > known:
            self.keys += self._answer_keys(known, last)
        return self.keys[first:last]

    def _answer_keys(self, first: int, last: int) -> list[int]:
        if self._more_keys is not None:
            return self._more_keys(first, last)
        return [hash((~self.number, number)) for number in range(first, last)]
