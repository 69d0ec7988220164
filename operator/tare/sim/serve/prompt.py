"""A prompt as the engine sees it: token ids, and the keys of its blocks and of its answer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.sim.core.memory import block_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.sim.tokens import Answer

__all__ = ["AnswerKeys", "Prompt"]


class Prompt:
    """Token ids of a prompt with the keys of its full blocks.

    Prompts with different salts share nothing; 0 stands for none.
    """

    __slots__ = ("block_size", "ids", "keys", "salt")

    def __init__(self, ids: Sequence[int], block_size: int, salt: int = 0) -> None:
        self.ids = ids
        self.block_size = block_size
        self.salt = salt
        self.keys = block_keys(ids, block_size, root=salt)


class AnswerKeys:
    """Keys of the blocks that an answer fills, in the order in which they are asked for.

    They continue the prompt's, so that a prompt which sends the answer back as token ids finds
    them. The same text may tokenise otherwise, and then does not.
    """

    __slots__ = ("_answer", "_parent", "_prompt")

    def __init__(self, prompt: Prompt, answer: Answer) -> None:
        self._prompt = prompt
        self._answer = answer
        self._parent = prompt.keys[-1] if prompt.keys else prompt.salt

    def __call__(self, first: int, last: int) -> list[int]:
        """Return the keys of the blocks `first` up to `last`; `first` follows the last call's."""
        prompt, size = self._prompt.ids, self._prompt.block_size
        start, end = first * size - len(prompt), last * size - len(prompt)
        ids = [*prompt[first * size :], *self._answer.ids(end, max(0, start))]
        keys = block_keys(ids, size, root=self._parent)
        self._parent = keys[-1]
        return keys
