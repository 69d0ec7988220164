"""The answer to one request for text: what whole and streamed ones share, and the whole one.

A reply listens to the engine for tokens and to the connection for the client's going away, and
tells its owner how it ended. Streams are in `stream`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from tare.sim.core.generations import State
from tare.sim.serve.openai import ApiError
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.sim.core.generations import Generation
    from tare.sim.serve.http import Connection
    from tare.sim.serve.openai import TextRequest
    from tare.sim.tokens import Answer

__all__ = ["Reply", "ReplyOwner", "WholeReply"]


GIVEN_UP = ApiError(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server is overloaded: the request cannot be done in time",
    "ServiceUnavailable",
)


class ReplyOwner(Protocol):
    """Who started the generation and keeps the books."""

    def on_written(self, reply: Reply, due_ns: int) -> None:
        """What was due then is written now: all of it when the generation is finished.

        Called while others wait to be told: what takes time is to be done later.
        """

    def on_given_up(self, reply: Reply) -> None:
        """The engine will not do it, and the client was told so; the last call."""

    def on_abandoned(self, reply: Reply) -> None:
        """No more can or shall be sent: the generation must be aborted; the last call."""


class Reply(ABC):
    """The answer to one request; subclasses decide what is sent when."""

    def __init__(
        self,
        *,
        request: TextRequest,
        answer: Answer,
        connection: Connection,
        identity: str,
        arrived_ns: int,
        owner: ReplyOwner,
        details: bool,
    ) -> None:
        self.request = request
        self.answer = answer
        self.connection = connection
        self.identity = f"{'chatcmpl' if request.chat else 'cmpl'}-{identity}"
        """The answer's `id`."""
        self.arrived_ns = arrived_ns
        self.first_token_ns = 0
        self.created = int(time.time())
        self.owner = owner
        self.details = details
        """Whether `usage` tells the cached tokens."""
        self.generation: Generation | None = None
        """Set by whoever submits the request to the engine."""

    def on_disconnect(self) -> None:
        """The client has gone."""
        self.owner.on_abandoned(self)

    def on_tokens(self, generation: Generation, count: int) -> None:
        """Note the time of the first token, send what is to be sent, and end.

        Called once, with no tokens, when the engine gives the request up.
        """
        if generation.state is State.GIVEN_UP:
            self.refuse(GIVEN_UP)
            self.owner.on_given_up(self)
            return
        due_ns = generation.due_at
        if generation.generated == count:
            self.first_token_ns = time.monotonic_ns()
        self.send(generation, count)
        self.owner.on_written(self, due_ns)

    def prepare(self, generation: Generation) -> None:  # noqa: B027 - it may have nothing to do
        """Put together what the next token will need, long before it is due."""

    @abstractmethod
    def send(self, generation: Generation, count: int) -> None:
        """Send what the `count` newest tokens call for; finish the answer with the last one."""

    @abstractmethod
    def refuse(self, error: ApiError) -> None:
        """Send an error instead of tokens, and finish the answer."""

    def usage(self, generation: Generation, generated: int) -> dict[str, Any]:
        """Return the `usage` object after so many tokens of the answer.

        `created_cache_tokens` is known for chat only, as on vLLM.
        """
        usage: dict[str, Any] = {
            "prompt_tokens": generation.prompt_tokens,
            "total_tokens": generation.prompt_tokens + generated,
            "completion_tokens": generated,
        }
        if self.details:
            details = {"cached_tokens": generation.cached_tokens}
            if self.request.chat:
                details["created_cache_tokens"] = generation.created_cache_tokens
            usage["prompt_tokens_details"] = details
        return usage


class WholeReply(Reply):
    """An answer without streaming: one JSON document after the last token."""

    @override
    def send(self, generation: Generation, count: int) -> None:  # noqa: ARG002 - all are awaited
        """Send the document when it is complete."""
        if generation.finished:
            self.connection.respond_json(200, self._document(generation))

    @override
    def refuse(self, error: ApiError) -> None:
        """Answer with the error's status."""
        self.connection.respond_json(error.status, error.document())

    def _document(self, generation: Generation) -> dict[str, Any]:
        text = self.answer.text(0, generation.generated)
        chat = self.request.chat
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {
            "index": 0,
            **({"message": message} if chat else {"text": text}),
            "logprobs": None,
            "finish_reason": self.request.finish_reason,
            "stop_reason": None,
        }
        return {
            "id": self.identity,
            "object": "chat.completion" if chat else "text_completion",
            "created": self.created,
            "model": self.request.model,
            "choices": [choice],
            "usage": self.usage(generation, generation.generated),
        }
