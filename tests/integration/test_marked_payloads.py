"""What the server gets on the wire: markers, prefixes and lengths, read from its own log."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.load import run_load, run_workers
from support.manifest_builder import OWNER, order_of, phase
from support.simulated import Simulated, simulated

if TYPE_CHECKING:
    from tare.plan.order import WorkOrder

SYSTEM = "You are a helpful assistant."
REQUESTS = 4
RID = re.compile(r"\[rid:([0-9a-f]{12})\]")


def order(server: Simulated, target: str = "none", **fields: Any) -> WorkOrder:
    """A warm-up and a profiling phase of four requests each."""
    bust = {"target": target, **fields.pop("bust", {})}
    prefix = fields.pop("prefix", {"systemPrompt": SYSTEM})
    load = fields.pop("load", {"requests": REQUESTS, "concurrency": 1})
    phases = [
        phase(name=kind, kind=kind, **{"requests": None, **load})
        for kind in ("warmup", "profiling")
    ]
    dataset = {
        "entries": fields.pop("entries", REQUESTS),
        "prompts": {"isl": 48, "osl": 4, "cacheBust": bust},
        "prefixPrompts": prefix,
        **fields.pop("dataset", {}),
    }
    made = order_of(OWNER, dataset=dataset, phases=phases, **fields)
    target_order = replace(made.target, urls=(server.origin,), host=None, model="tiny")
    return replace(made, target=target_order)


async def sent(server: Simulated) -> list[dict[str, Any]]:
    """The log of the server, oldest first."""
    answer = await server.get("/admin/requests")
    return list(answer.json["requests"])


def texts(entry: dict[str, Any]) -> list[str]:
    return [message["content"] for message in entry["messages"]]


async def conversations(target: str, **fields: Any) -> tuple[list[list[str]], list[list[str]]]:
    """Contents of the messages in warm-up and profiling."""
    async with simulated() as server:
        await run_load(order(server, target, **fields))
        log = [texts(entry) for entry in await sent(server)]
    return log[:REQUESTS], log[REQUESTS:]


async def test_without_a_target_both_phases_send_the_same_plain_prompts() -> None:
    warmup, profiling = await conversations("none")
    assert warmup == profiling
    assert {system for system, _ in warmup} == {SYSTEM}
    assert "[" not in "".join(user for _, user in warmup)


@pytest.mark.parametrize(
    ("target", "message", "pattern"),
    [
        ("system_prefix", 0, rf"\[rid:[0-9a-f]{{12}}\]\n\n{SYSTEM}"),
        ("system_suffix", 0, rf"{SYSTEM}\n\n\[rid:[0-9a-f]{{12}}\]"),
        ("first_turn_prefix", 1, r"\[rid:[0-9a-f]{12}\]\n\n[a-z ]+"),
        ("first_turn_suffix", 1, r"[a-z ]+\n\n\[rid:[0-9a-f]{12}\]"),
    ],
)
async def test_each_trajectory_is_marked_alike_in_both_phases(
    target: str, message: int, pattern: str
) -> None:
    plain, _ = await conversations("none")
    warmup, profiling = await conversations(target)
    assert warmup == profiling
    assert all(re.fullmatch(pattern, conversation[message]) for conversation in warmup)
    assert len({RID.findall(conversation[message])[0] for conversation in warmup}) == REQUESTS
    assert [c[1 - message] for c in warmup] == [c[1 - message] for c in plain]


@pytest.mark.parametrize(("target", "message"), [("system", 0), ("first_turn", 1)])
async def test_an_isolated_warm_up_is_marked_and_profiling_is_clean(
    target: str, message: int
) -> None:
    plain, _ = await conversations("none")
    warmup, profiling = await conversations(f"warmup_isolation_{target}")
    assert profiling == plain
    for marked, clean in zip(warmup, profiling, strict=True):
        text = marked[message].removeprefix("[warmup]\n\n")
        assert len(text) < len(marked[message])
        assert clean[message].startswith(text)
        assert marked[1 - message] == clean[1 - message]


async def test_b86_no_prompt_of_an_isolated_warm_up_begins_like_one_of_profiling() -> None:
    prefix = {"sharedSystemLength": 64}
    warmup, profiling = await conversations("warmup_isolation_system", prefix=prefix)
    heads = [{conversation[0][:64] for conversation in log} for log in (warmup, profiling)]
    assert heads[0].isdisjoint(heads[1])
    assert len(heads[1]) == 1, "profiling still shares its own prefix"
    assert "[warmup]" not in "".join(text for c in profiling for text in c)
    async with simulated() as server:
        await run_load(order(server, "warmup_isolation_system", prefix=prefix))
        cached = [entry["cached_tokens"] for entry in await sent(server)]
    assert cached[REQUESTS] == 0, "the first request of profiling is cold"


@pytest.mark.parametrize(
    "target",
    ["none", "system_prefix", "system_suffix", "first_turn_prefix", "first_turn_suffix"],
)
async def test_a_marker_takes_its_tokens_from_the_synthetic_text_that_it_stands_in(
    target: str,
) -> None:
    async with simulated() as server:
        await run_load(order(server, target, prefix={"sharedSystemLength": 64}))
        lengths = {entry["prompt_tokens"] for entry in await sent(server)}
    template = 2 * 7 + 5
    assert lengths == {64 + 48 + template}


async def test_a_marker_comes_on_top_of_text_that_the_user_wrote() -> None:
    async with simulated() as server:
        await run_load(order(server, "system_prefix"))
        await run_load(order(server, "none"))
        lengths = [entry["prompt_tokens"] for entry in await sent(server)]
    assert set(lengths[: 2 * REQUESTS]) == {lengths[-1] + 3}


async def test_a_pool_gives_its_prefixes_to_questions_of_the_asked_length() -> None:
    prefix = {"poolSize": 2, "poolLength": 32}
    warmup, profiling = await conversations("first_turn_prefix", prefix=prefix, entries=REQUESTS)
    assert warmup == profiling
    heads = {text.partition("\n\n")[2].split(" ")[0] for (text,) in profiling}
    assert 1 <= len(heads) <= 2
    async with simulated() as server:
        await run_load(order(server, "first_turn_prefix", prefix=prefix))
        assert {entry["prompt_tokens"] for entry in await sent(server)} == {32 + 48 + 12}


async def test_a_user_context_is_a_message_of_its_own_that_no_marker_touches() -> None:
    prefix = {"userContextLength": 24}
    warmup, profiling = await conversations("warmup_isolation_first_turn", prefix=prefix)
    assert [context for context, _ in warmup] == [context for context, _ in profiling]
    assert len({context for context, _ in profiling}) == REQUESTS
    assert all(question.startswith("[warmup]\n\n") for _, question in warmup)


@pytest.mark.parametrize(
    ("target", "marked"),
    [
        ("system_prefix", (True, True)),
        ("first_turn_suffix", (True, True)),
        ("warmup_isolation_first_turn", (True, False)),
    ],
)
async def test_a_completion_is_marked_in_its_one_prompt(
    target: str, marked: tuple[bool, bool]
) -> None:
    async with simulated() as server:
        endpoint = {"type": "completions"}
        await run_load(order(server, target, prefix={}, endpoint=endpoint))
        log = await sent(server)
    assert {entry["prompt_tokens"] for entry in log} == {48}
    found = [("[rid:" in e["prompt"] or "[warmup]" in e["prompt"]) for e in log]
    assert found == [marked[0]] * REQUESTS + [marked[1]] * REQUESTS


LOADS: dict[str, dict[str, Any]] = {
    "closed loop": {"requests": 12, "concurrency": 3},
    "poisson": {"type": "poisson", "rate": 400.0, "requests": 12, "concurrency": None},
    "sessions": {"type": "sessions", "sessions": 12, "concurrency": 3},
}


async def markers(load: str, workers: int, processes: int) -> list[dict[str, str]]:
    """Question to marker, in warm-up and in profiling; each entry is replayed three times."""
    async with simulated() as server:
        made = order(server, "first_turn_suffix", load=LOADS[load])
        # Processes count as workers (`worker.mate.share_of_process`).
        await run_workers(replace(made, workers=workers * processes))
        log = [texts(entry)[1] for entry in await sent(server)]
    assert len(log) == 24
    return [
        {RID.findall(text)[0]: text.partition("\n\n")[0] for text in part}
        for part in (log[:12], log[12:])
    ]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(("workers", "processes"), [(1, 1), (3, 1), (2, 2), (5, 1)])
async def test_markers_do_not_depend_on_who_sends(load: str, workers: int, processes: int) -> None:
    warmup, profiling = await markers(load, workers, processes)
    assert warmup == profiling == (await markers("closed loop", 1, 1))[0]
    assert len(warmup) == 12, "a replay of the same text has a digest of its own"
    assert len(set(warmup.values())) == REQUESTS


async def test_phases_that_are_isolated_from_each_other_share_no_marker() -> None:
    bust = {"scope": "TrajectoryAndPhase"}
    warmup, profiling = await conversations("system_prefix", bust=bust)
    found = [{RID.findall(system)[0] for system, _ in log} for log in (warmup, profiling)]
    assert [len(part) for part in found] == [REQUESTS, REQUESTS]
    assert found[0].isdisjoint(found[1])


async def test_a_salt_isolates_what_has_no_marker_in_its_text() -> None:
    async with simulated() as server:
        salted = order(
            server, "system_prefix", bust={"carrier": "salt"}, prefix={"sharedSystemLength": 64}
        )
        await run_load(salted)
        log = await sent(server)
    assert all("[" not in text for entry in log for text in texts(entry))
    cached = [entry["cached_tokens"] for entry in log]
    assert cached[:REQUESTS] == [0] * REQUESTS, "the shared system prompt is not shared"
    assert min(cached[REQUESTS:]) >= 96, "the same trajectory finds its own"
