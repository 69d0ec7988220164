"""Asks how many tokens words have: the server, the `tokenizers` package, or nobody.

Asked once, while the dataset is loaded: workers are started before the first gate of the trial
before theirs (`decide.workers.prestart`), so no phase of load is on its way then.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from tare.plan.markers import marker_of
from tare.worker.endpoint import Endpoint
from tare.worker.fetch import Fetch
from tare.worker.http import request_head
from tare.worker.pool import Pool
from tare.workload.outline import measure_frame
from tare.workload.sizes import CountedBy, by_words, measure
from tare.workload.vocabulary import WORDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tare.plan.order import WorkOrder
    from tare.worker.orders import Assignment
    from tare.workload.sizes import TokenSizes

__all__ = ["NoCountError", "ServerCounter", "sizes_for"]

_LOG = logging.getLogger(__name__)
_CONNECT_TIMEOUT: Final = 5.0
_PATIENCE: Final = 15.0
"""Seconds for all questions together; a few are enough for nearly every tokenizer."""
_AT_ONCE: Final = 16
_OK: Final = 200


class NoCountError(Exception):
    """Nobody counts this way; says why."""


async def sizes_for(assignment: Assignment) -> TokenSizes:
    """Return the sizes of words and marker, by the best source there is; never raises."""
    dataset = assignment.order.dataset
    marker = marker_of(dataset.cache_bust, has_system=dataset.has_system)
    if not assignment.order.count_tokens:
        return by_words(marker)
    counter = ServerCounter(assignment)
    try:
        async with asyncio.timeout(_PATIENCE):
            await counter.count(WORDS[0])  # Alone: a server without the route is asked once.
            sizes = await measure(counter.count, CountedBy.SERVER, marker)
            return await _with_frame(sizes, counter, assignment.order)
    except (NoCountError, OSError) as error:
        _LOG.info("the server does not count tokens: %s", str(error) or "no answer in time")
    finally:
        counter.close()
    try:
        count = _by_package(assignment.order.target.model)
        return await measure(count, CountedBy.TOKENIZERS, marker)
    except NoCountError as error:
        _LOG.info("the tokenizers package does not either: %s", error)
    return by_words(marker)


async def _with_frame(sizes: TokenSizes, counter: ServerCounter, order: WorkOrder) -> TokenSizes:
    """Add what the server says of its template, and of the user's own system prompt."""
    own = order.dataset.system_prompt
    system = await counter.count(own) if own is not None else None
    try:
        chat = order.target.type == "chat"
        frame = await measure_frame(counter.ids, order.dataset, sizes, chat=chat)
    except (NoCountError, OSError) as error:
        _LOG.info("the server does not tell its template: %s", error)
        frame = None
    return replace(sizes, system=system, frame=frame)


class ServerCounter:
    """Asks the first address of the target, each text once, some at a time."""

    def __init__(self, assignment: Assignment) -> None:
        base, target = assignment.bases[0], assignment.order.target
        self._pool = Pool(
            [
                Endpoint(
                    base.origin,
                    connect_timeout=_CONNECT_TIMEOUT,
                    tls=assignment.tls,
                    server_name=assignment.server_name,
                )
            ]
        )
        self._model = target.model
        headers = {"Content-Type": "application/json", **assignment.headers}
        authority = target.host or base.origin.authority
        self._head = request_head("POST", base.path("/tokenize"), authority, headers)
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._known: dict[str, asyncio.Future[int]] = {}

    async def count(self, text: str) -> int:
        """Return the number of tokens of a text, without what the server would put around it.

        https://docs.vllm.ai/en/stable/serving/openai_compatible_server/#tokenizer-api; SGLang has
        the same route.

        Raises:
            NoCountError: the server has no such route, or answers something else.
        """
        if text not in self._known:
            self._known[text] = asyncio.ensure_future(self._ask(text))
        return await self._known[text]

    async def ids(self, prompt: list[dict[str, str]] | str) -> list[int]:
        """Return the token ids of a prompt as the server would make it, its template included.

        Raises:
            NoCountError: the server answers no ids.
        """
        field = "prompt" if isinstance(prompt, str) else "messages"
        answer = await self._post({"model": self._model, field: prompt})
        ids = answer.get("tokens")
        if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
            raise NoCountError("POST /tokenize answered no token ids")
        return ids

    def close(self) -> None:
        """Close the connections."""
        for question in self._known.values():
            question.cancel()
        self._pool.abort()

    async def _ask(self, text: str) -> int:
        question = {"model": self._model, "prompt": text, "add_special_tokens": False}
        count = (await self._post(question)).get("count")
        if not isinstance(count, int):
            raise NoCountError(f"POST /tokenize answered a count of {count!r}")
        return count

    async def _post(self, question: dict[str, Any]) -> dict[str, Any]:
        body = orjson.dumps(question)
        async with self._gate:
            exchange = Fetch()
            self._pool.submit(exchange, b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
            status, answer = await exchange.answer
        if status != _OK:
            raise NoCountError(f"POST /tokenize answered {status}")
        try:
            document = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise NoCountError(f"POST /tokenize answered no count: {error}") from error
        if not isinstance(document, dict):
            raise NoCountError("POST /tokenize answered no count: it is no object")
        return document


def _by_package(model: str) -> Callable[[str], Awaitable[int]]:
    """Count with the model's own `tokenizer.json`, from Hugging Face's cache.

    Nothing is downloaded unless HF_HUB_OFFLINE says 0: where there is no way out, the hub's client
    tries again for half a minute. https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables

    Raises:
        NoCountError: the package is not installed, or the file cannot be had.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # Read when the hub's client is imported.
    try:
        package: Any = importlib.import_module("tokenizers")
        tokenizer = package.Tokenizer.from_pretrained(model)
    except Exception as error:  # the package raises what its hub client raises
        raise NoCountError(str(error) or type(error).__name__) from error

    async def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count
