"""Which body a request of a phase has: prepared ones, signed where their session's digest differs.

Nothing is encoded while load is sent but for sessions of several turns, whose history is known only
then (`worker.sessions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tare.plan.markers import DIGEST_LENGTH
from tare.plan.schedule import prompt_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.workload.dataset import PreparedRequest, Signer

__all__ = ["Prompt", "Prompts", "SinglePrompts"]

Prompt = tuple[int, int, bytes, list[str] | None]
"""Entry, output tokens asked for, body, and a list that gets the answer's text if it is wanted."""


class Prompts(Protocol):
    """The requests of one phase."""

    def request(self, number: int) -> Prompt:
        """Return request `number` of the phase, which is sent now."""
        ...


class SinglePrompts:
    """Prompts of one turn: request and session are the same."""

    def __init__(
        self, requests: Mapping[int, PreparedRequest], *, signer: Signer, signed: Signer
    ) -> None:
        """Take requests that were prepared with the digests of `signed`."""
        self._requests = requests
        self._entries = signer.entries
        self._signer = signer
        self._signs_all = signer != signed

    def request(self, number: int) -> Prompt:
        """Part of `Prompts`."""
        entry = prompt_entry(number, self._entries)
        request = self._requests[entry]
        body, at = request.body, request.digest_at
        if at is not None and (number != entry or self._signs_all):
            digest = self._signer.digest(number).encode()
            body = b"%b%b%b" % (body[:at], digest, body[at + DIGEST_LENGTH :])
        return entry, request.max_tokens, body, None
