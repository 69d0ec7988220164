"""What a prompt finds cached on the simulated server, as measured on a vLLM 0.32."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from support.simulated import (
    CHAT,
    TEXT,
    Simulated,
    cached,
    chat,
    ids,
    simulated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Simulated]:
    async with simulated() as running:
        yield running


@pytest.fixture
async def slow() -> AsyncIterator[Simulated]:
    """Prefill takes 100 ms, and then a token 10 ms."""
    async with simulated("--ttft-overhead", "100ms", "--itl", "10ms") as running:
        yield running


@pytest.mark.parametrize(("tokens", "hit"), [(32, 0), (33, 32), (64, 32), (65, 64), (897, 896)])
async def test_a_repeat_finds_all_full_blocks_before_its_last_token(
    server: Simulated, tokens: int, hit: int
) -> None:
    assert await cached(server, TEXT, {"prompt": ids(tokens)}) == 0
    assert await cached(server, TEXT, {"prompt": ids(tokens)}) == hit


async def test_a_hit_shortens_the_time_to_first_token() -> None:
    async with simulated("--prefill-rate", "5000") as server:
        body = {"prompt": ids(1601), "max_tokens": 1}
        cold, warm = await server.stream(TEXT, body), await server.stream(TEXT, body)
        assert cold.data_at[0] >= 0.32
        assert warm.data_at[0] < 0.2


async def test_generated_tokens_hit_when_sent_back_as_ids_but_not_as_text() -> None:
    async with simulated("--itl", "0") as server:
        await server.post(TEXT, {"prompt": "w " * 40, "max_tokens": 100})
        text = (await server.post(TEXT, {"prompt": "w " * 40, "max_tokens": 100})).json
        back = "w " * 40 + text["choices"][0]["text"].lstrip()
        assert await cached(server, TEXT, {"prompt": back}) == 32


async def test_the_same_text_as_system_user_or_completion_shares_nothing(server: Simulated) -> None:
    text = "word " * 200
    for role in ("user", "system"):
        assert await cached(server, CHAT, {"messages": [{"role": role, "content": text}]}) == 0
    assert await cached(server, TEXT, {"prompt": text}) == 0


async def test_two_questions_share_the_system_prompt_in_full_blocks(server: Simulated) -> None:
    def ask(question: str) -> dict[str, Any]:
        system = {"role": "system", "content": "rule " * 865}
        return {"messages": [system, {"role": "user", "content": question}]}

    await cached(server, CHAT, ask("first"))
    assert await cached(server, CHAT, ask("second")) == 864


async def test_one_text_part_is_the_same_prompt_and_two_are_joined_by_a_newline(
    server: Simulated,
) -> None:
    def parts(*texts: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text} for text in texts]
        return {"messages": [{"role": "user", "content": content}]}

    half = "word " * 60
    await cached(server, CHAT, chat(half + half))
    assert await cached(server, CHAT, parts(half + half)) == 128
    assert await cached(server, CHAT, parts(half, half)) == 64
    joined = await server.post("/tokenize", chat(half + "\n" + half))
    in_parts = await server.post("/tokenize", parts(half, half))
    assert joined.json["tokens"] == in_parts.json["tokens"]


async def test_each_salt_has_a_cache_of_its_own_and_none_is_another(server: Simulated) -> None:
    for path, body in ((TEXT, {"prompt": ids(100)}), (CHAT, chat("word " * 100))):
        for salt in ({}, {"cache_salt": "a"}, {"cache_salt": "b"}):
            assert await cached(server, path, {**body, **salt}) == 0
            assert await cached(server, path, {**body, **salt}) == 96
    assert (await server.post(TEXT, {"prompt": "a", "cache_salt": ""})).status == 400


async def test_eight_equal_prompts_at_once_miss_once(slow: Simulated) -> None:
    hits = await asyncio.gather(*(cached(slow, TEXT, {"prompt": ids(2564)}) for _ in range(8)))
    assert sorted(hits) == [0, *[2560] * 7]


async def test_usage_counters_and_log_agree_to_the_token(server: Simulated) -> None:
    told = [await cached(server, TEXT, {"prompt": ids(100)}) for _ in range(3)]
    assert sum(told) == 192
    assert await server.metric("vllm:prefix_cache_hits_total") == 192
    assert await server.metric("vllm:prompt_tokens_cached_total") == 192
    assert await server.metric("vllm:prefix_cache_queries_total") == 300
    assert await server.metric("vllm:prompt_tokens_total") == 300
    counters = await server.counters()
    assert (counters["prompt_tokens"], counters["cached_tokens"]) == (300, 192)
