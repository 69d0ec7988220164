"""Serving engines on a clock that jumps from due time to due time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tare.sim.core.batching import ContinuousBatching
from tare.sim.core.costs import StepCost
from tare.sim.core.engine import EngineSettings
from tare.sim.core.generations import Generation
from tare.sim.core.memory import block_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.sim.core.engine import Engine

__all__ = ["MS", "Heard", "World", "prompt"]

MS = 1_000_000
ANSWER = 9000
"""First token id of every answer unless told otherwise."""


@dataclass
class Heard:
    """A listener that writes down when it was told of how many tokens."""

    world: World
    tokens: list[tuple[int, int]] = field(default_factory=list)
    """Milliseconds and tokens."""

    def on_tokens(self, generation: Generation, count: int) -> None:
        """Write it down."""
        del generation
        self.tokens.append((self.world.now // MS, count))


class World:
    """An engine and its clock: 10 ms overhead, 5 ms an iteration, 1 ms more a prompt token."""

    def __init__(
        self, kind: Callable[[EngineSettings], Engine] = ContinuousBatching, **settings: Any
    ) -> None:
        cost = settings.pop("cost", StepCost(step=5 * MS, prefill=MS))
        base: dict[str, Any] = {
            "overhead_ns": 10 * MS,
            "cost": cost,
            "max_num_seqs": 64,
            "max_num_batched_tokens": 100_000,
            "block_size": 32,
            "kv_blocks": 1000,
        }
        self.engine = kind(EngineSettings(**{**base, **settings}))
        self.size = self.engine.memory.block_size
        self.now = 0

    def submit(
        self, ids: Sequence[int], limit: int = 1, *, salt: int = 0, answer: int = ANSWER
    ) -> tuple[Generation, Heard]:
        """Submit a prompt now."""
        heard = Heard(self)
        keys = block_keys(ids, self.size, root=salt)

        def more_keys(first: int, last: int) -> list[int]:
            whole = [*ids, *range(answer, answer + last * self.size)]
            return block_keys(whole, self.size, root=salt)[first:last]

        generation = Generation(
            prompt_tokens=len(ids), keys=keys, limit=limit, listener=heard, more_keys=more_keys
        )
        self.engine.submit(self.now, generation)
        return generation, heard

    def play(self, until_ms: int | None = None) -> None:
        """Jump from due time to due time, to the end or to a moment."""
        while (due := self.engine.next_due()) is not None:
            if until_ms is not None and due > until_ms * MS:
                break
            self.now = max(self.now, due)
            self.engine.advance(self.now)
        if until_ms is not None:
            self.now = until_ms * MS

    def run(self, ids: Sequence[int], limit: int = 1, **more: Any) -> Generation:
        """Submit a prompt and play to the end."""
        generation, _ = self.submit(ids, limit, **more)
        self.play()
        return generation


def prompt(tokens: int, start: int = 0) -> list[int]:
    """Return token ids that count up."""
    return list(range(start, start + tokens))
