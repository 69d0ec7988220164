"""Routes under `/v1` and `/tokenize`: models, chat and completions."""

from __future__ import annotations

import asyncio
import os
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tare.sim.core.generations import Generation
from tare.sim.serve.openai import ApiError, read_generation, read_object, read_tokenize
from tare.sim.serve.prompt import AnswerKeys
from tare.sim.serve.reply import Reply, WholeReply
from tare.sim.serve.stream import BadEnd, StreamReply
from tare.sim.tokens import Answer

if TYPE_CHECKING:
    from tare.sim.serve.http import Connection, Request
    from tare.sim.serve.state import State

__all__ = ["TextRoutes"]


class TextRoutes:
    """Accepts requests for text, hands them to the engine and keeps the books when they end."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._created = int(time.time())
        self._loop = asyncio.get_running_loop()
        self._written: list[tuple[Reply, int, int]] = []
        """Who has written and is not in the books yet, when it was due, and when it was done."""

    def chat(self, request: Request, connection: Connection) -> None:
        """POST /v1/chat/completions."""
        self._accept(request, connection, chat=True)

    def completions(self, request: Request, connection: Connection) -> None:
        """POST /v1/completions."""
        self._accept(request, connection, chat=False)

    def models(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """GET /v1/models."""
        options = self._state.options
        models = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "tare-sim",
                "root": options.models[0],
                "parent": None,
                "max_model_len": options.max_model_len,
            }
            for name in options.models
        ]
        connection.respond_json(200, {"object": "list", "data": models})

    def tokenize(self, request: Request, connection: Connection) -> None:
        """POST /tokenize."""
        ids = read_tokenize(_body(request), self._state.limits)
        document = {
            "count": len(ids),
            "max_model_len": self._state.options.max_model_len,
            "tokens": ids,
            "token_strs": None,
        }
        connection.respond_json(200, document)

    # --- ReplyOwner

    def on_written(self, reply: Reply, due_ns: int) -> None:
        """Note it, for when all that was due is written."""
        if not self._written:
            self._loop.call_soon(self._settle)
        self._written.append((reply, due_ns, time.monotonic_ns()))

    def _settle(self) -> None:
        """Count what was written, and let replies prepare for their next tokens."""
        written, self._written = self._written, []
        # Who was told twice meanwhile was done the second time.
        for reply, due_ns, at_ns in reversed(written):
            self._state.truth.lateness.observe(at_ns - due_ns)
            generation = reply.generation
            if generation is not None and generation.finished:
                self._complete(reply, generation, at_ns)
            elif generation is not None:
                reply.prepare(generation)

    def _complete(self, reply: Reply, generation: Generation, at_ns: int) -> None:
        self._state.truth.on_complete(generation)
        self._state.metrics.on_complete(
            reply.request.model,
            finish_reason=reply.request.finish_reason,
            time_to_first_token_ns=reply.first_token_ns - reply.arrived_ns,
            latency_ns=at_ns - reply.arrived_ns,
        )
        reply.generation = None

    def on_given_up(self, reply: Reply) -> None:
        """Count a request that could not be done in time."""
        self._state.truth.on_given_up()
        reply.generation = None

    def on_abandoned(self, reply: Reply) -> None:
        """Stop generating what nobody reads."""
        assert reply.generation is not None
        self._state.engines[reply.request.model].abort(reply.generation)
        self._state.truth.on_aborted()
        reply.generation = None

    def _accept(self, request: Request, connection: Connection, *, chat: bool) -> None:
        state = self._state
        if state.draining:
            state.truth.counts.requests_refused += 1
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE, "The server shuts down", "ServiceUnavailable"
            )
        fault = state.misbehave("chat", connection)
        if fault is not None and fault not in set(BadEnd):
            state.truth.counts.requests_refused += 1
            return
        try:
            asked = read_generation(_body(request), state.limits, chat=chat)
        except ApiError:
            state.truth.counts.requests_refused += 1
            raise
        common: dict[str, Any] = {
            "request": asked,
            "answer": Answer.to(
                tuple(asked.prompt.ids), state.options.seed, state.limits.tokenizer.vocabulary
            ),
            "connection": connection,
            "identity": request.headers.get("x-request-id") or os.urandom(8).hex(),
            "arrived_ns": request.arrived_ns,
            "owner": self,
            "details": state.options.prompt_tokens_details,
        }
        bad_end = None if fault is None else BadEnd(fault)
        reply = StreamReply(**common, bad_end=bad_end) if asked.stream else WholeReply(**common)
        self._start(request, reply)

    def _start(self, request: Request, reply: Reply) -> None:
        asked = reply.request
        reply.generation = generation = Generation(
            prompt_tokens=len(asked.prompt.ids),
            keys=asked.prompt.keys,
            limit=asked.limit,
            listener=reply,
            more_keys=AnswerKeys(asked.prompt, reply.answer),
        )
        reply.prepare(generation)
        self._state.engines[asked.model].submit(generation)
        reply.connection.listener = reply
        self._state.truth.on_request(request, asked, generation, reply.identity)


def _body(request: Request) -> dict[str, Any]:
    return read_object(request.headers.get("content-type", ""), request.body)
