"""Who counts tokens for a worker, and what happens when nobody does."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import orjson
import pytest

from support.load import closed_loop, work_order
from support.scripted import Script, ScriptedServer, Seen
from support.simulated import simulated
from tare.measure.wire import encode
from tare.plan.cache.outline import Frame
from tare.plan.order import CacheBustOrder
from tare.sim.tokens import encode as tokenize
from tare.worker.orders import Assignment, read_assignment
from tare.worker.tokenizing import sizes_for
from tare.workload.sizes import CountedBy


def answer(status: int, body: bytes) -> Script:
    return Script(
        status=status, writes=[(0, body)], framing="length", content_type="application/json"
    )


def assignment(*servers: ScriptedServer, target: str = "none", ask: bool = True) -> Assignment:
    order = work_order(*servers, phases=(closed_loop(requests=1),), count_tokens=ask)
    bust = CacheBustOrder(target=target)  # type: ignore[arg-type]
    return read_assignment(
        {}, encode(replace(order, dataset=replace(order.dataset, cache_bust=bust)))
    )


async def test_the_server_is_asked_with_the_headers_of_the_load() -> None:
    def count(seen: Seen) -> Script:
        if "messages" in seen.json:
            return answer(400, b"{}")
        return answer(200, orjson.dumps({"count": len(tokenize(seen.json["prompt"]))}))

    async with ScriptedServer(count) as server:
        plain = assignment(server)
        sizes = await sizes_for(replace(plain, headers={"Authorization": "Bearer k"}))
        assert {seen.path for seen in server.requests} == {"/tokenize"}
        assert {seen.headers["authorization"] for seen in server.requests} == {"Bearer k"}
        texts = [seen.json for seen in server.requests if "prompt" in seen.json]
        asked = [question["prompt"] for question in texts]
        assert len(asked) == len(set(asked)) < 20, "each text is asked for once"
        assert not any(question["add_special_tokens"] for question in texts)
    assert (sizes.counted_by, sizes.exact) == (CountedBy.SERVER, True)
    assert sizes.frame is None, "a server that counts texts need not know messages"


async def test_the_simulated_server_counts() -> None:
    async with simulated() as server:
        target = {"urls": (server.origin,), "model": "tiny"}
        order = work_order(phases=(closed_loop(requests=1),), target=target, count_tokens=True)
        marked = replace(order.dataset, cache_bust=CacheBustOrder(target="first_turn_suffix"))
        sizes = await sizes_for(read_assignment({}, encode(replace(order, dataset=marked))))
    assert (sizes.counted_by, sizes.exact, sizes.marker) == (CountedBy.SERVER, True, 3)
    assert sizes.frame == Frame(starts=(5,), total=12, turn=14, tail=0)


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, b"{}"), (500, b"oops"), (200, b"data: [DONE]"), (200, b"{}"), (200, b'{"count": "9"}')],
)
async def test_a_server_that_does_not_count_is_asked_once(status: int, body: bytes) -> None:
    async with ScriptedServer(answer(status, body)) as server:
        sizes = await sizes_for(assignment(server, target="system_prefix"))
        assert len(server.requests) == 1
    assert (sizes.counted_by, sizes.exact, sizes.marker) == (CountedBy.WORDS, False, 16)


async def test_a_server_that_is_not_there_is_no_reason_to_give_up() -> None:
    async with ScriptedServer(answer(200, b"{}")) as server:
        pass
    assert (await sizes_for(assignment(server))).counted_by is CountedBy.WORDS


async def test_nobody_is_asked_unless_the_order_says_so() -> None:
    async with ScriptedServer(answer(200, b'{"count": 1}')) as server:
        sizes = await sizes_for(assignment(server, ask=False))
        assert server.requests == []
    assert sizes.counted_by is CountedBy.WORDS


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The part of `tokenizers` that is used, with the simulated server's tokens."""
    asked: list[str] = []

    def from_pretrained(model: str) -> SimpleNamespace:
        asked.append(model)
        if model == "gone":
            raise OSError("no such model")
        return SimpleNamespace(
            encode=lambda text, **_: SimpleNamespace(ids=tokenize(text)),
        )

    module = ModuleType("tokenizers")
    module.__dict__["Tokenizer"] = SimpleNamespace(from_pretrained=from_pretrained)
    monkeypatch.setitem(sys.modules, "tokenizers", module)
    return asked


@pytest.mark.parametrize(("model", "counted_by"), [("m", "tokenizers"), ("gone", "words")])
async def test_the_package_counts_when_the_server_does_not(
    package: list[str], model: str, counted_by: str
) -> None:
    async with ScriptedServer(answer(404, b"{}")) as server:
        found = assignment(server)
    order = replace(found.order, target=replace(found.order.target, model=model))
    sizes = await sizes_for(read_assignment({}, encode(order)))
    assert package == [model]
    assert sizes.counted_by == counted_by
    assert sizes.exact == (model == "m")
