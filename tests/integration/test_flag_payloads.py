"""What flags make of every scenario on AIPerf's page of cache-bust targets, on the wire.

The simulated server's own log is read: roles, texts and markers of each message in the warm-up and
in profiling. System texts are those of the page; questions are synthetic, as its prefix modes say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from support.load import run_load
from support.manifest_builder import KEY, OWNER
from support.simulated import Simulated, simulated
from tare.api.problems import check_spec
from tare.cli.flag_check import load_flags
from tare.cli.flags import Flags
from tare.manifests.order import Address, build_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.plan.order import WorkOrder

SYSTEM = "You are a helpful assistant."
TRAJECTORIES = 4
PREFIXES: dict[str, dict[str, Any]] = {
    "no prefix": {},
    "shared system prompt": {"shared_system_prompt_length": 48},
    "verbatim system prompt": {"system_prompt": SYSTEM},
    "system prompt from a file": {"system_prompt_file": SYSTEM},
    "user context": {"user_context_prompt_length": 48},
    "prefix pool": {"num_prefix_prompts": 2, "prefix_prompt_length": 48},
}
RID = r"\[rid:[0-9a-f]{12}\]"
ROLES = {"S": "system", "C": "user", "Q": "user"}
TEXTS = {"S": r"[A-Za-z .]+", "C": r"[a-z ]+", "Q": r"[a-z ]+", "r": RID, "w": r"\[warmup\]"}
"""Letters of the tables below: system, context, question (with its prefix of the pool), markers."""
WITH_SYSTEM = {
    "none": ("S Q", "S Q"),
    "system_prefix": ("rS Q", "rS Q"),
    "system_suffix": ("Sr Q", "Sr Q"),
    "first_turn_prefix": ("S rQ", "S rQ"),
    "first_turn_suffix": ("S Qr", "S Qr"),
    "warmup_isolation_system": ("wS Q", "S Q"),
    "warmup_isolation_first_turn": ("S wQ", "S Q"),
}
WITH_CONTEXT = {
    "none": ("C Q", "C Q"),
    "system_prefix": ("C rQ", "C rQ"),
    "system_suffix": ("C Qr", "C Qr"),
    "first_turn_prefix": ("C rQ", "C rQ"),
    "first_turn_suffix": ("C Qr", "C Qr"),
    "warmup_isolation_first_turn": ("C wQ", "C Q"),
}
ALONE = {
    target: (warmup.removeprefix("C "), profiling.removeprefix("C "))
    for target, (warmup, profiling) in WITH_CONTEXT.items()
}
SCENARIOS = {
    "no prefix": ALONE,
    "shared system prompt": WITH_SYSTEM,
    "verbatim system prompt": WITH_SYSTEM,
    "system prompt from a file": {"system_prefix": WITH_SYSTEM["system_prefix"]},
    "user context": WITH_CONTEXT,
    "prefix pool": ALONE,
}
ROWS = [
    pytest.param(prefix, target, *phases, id=f"{prefix}, {target}")
    for prefix, targets in SCENARIOS.items()
    for target, phases in targets.items()
]
Conversation = list[tuple[str, str]]


def order(server: Simulated, **given: Any) -> WorkOrder:
    """The work order that flags lead to: every trajectory once in each phase."""
    flags = Flags(
        urls=(server.origin,),
        model="tiny",
        request_count=TRAJECTORIES,
        warmup_request_count=TRAJECTORIES,
        streaming=True,
        **{"isl": 48, "osl": 4, **given},
    )
    spec, problems = check_spec(load_flags(flags).run["spec"])
    assert spec is not None, problems
    return build_order(OWNER, KEY, spec, address=Address(urls=flags.urls, host=None), headers=())


async def wire(**given: Any) -> tuple[list[Conversation], list[Conversation]]:
    """Roles and texts of the warm-up's and of profiling's messages, in order of arrival."""
    async with simulated() as server:
        await run_load(order(server, **given))
        log = (await server.get("/admin/requests")).json["requests"]
    sent = [[(m["role"], m["content"]) for m in entry["messages"]] for entry in log]
    assert len(sent) == 2 * TRAJECTORIES
    return sent[:TRAJECTORIES], sent[TRAJECTORIES:]


def assert_shape(conversations: Sequence[Conversation], pattern: str) -> None:
    """Compare with a cell of the tables; a blank line stands between a marker and its text."""
    words = pattern.split(" ")
    roles = [ROLES[word.strip("rw")] for word in words]
    texts = ["\n\n".join(TEXTS[letter] for letter in word) for word in words]
    for conversation in conversations:
        assert [role for role, _ in conversation] == roles
        for (_, text), wanted in zip(conversation, texts, strict=True):
            assert re.fullmatch(wanted, text)


def markers(conversations: Sequence[Conversation]) -> list[str]:
    return [found for c in conversations for _, text in c for found in re.findall(RID, text)]


@pytest.mark.parametrize(("prefix", "target", "warmup", "profiling"), ROWS)
async def test_each_scenario_sends_its_markers_where_the_page_has_them(
    prefix: str, target: str, warmup: str, profiling: str
) -> None:
    warm, measured = await wire(cache_bust=target, **PREFIXES[prefix])
    assert_shape(warm, warmup)
    assert_shape(measured, profiling)
    if "w" not in warmup:
        assert warm == measured, "the same trajectory is the same in both phases"
    assert (
        len(set(markers(measured))) == len(markers(measured)) == TRAJECTORIES * ("r" in profiling)
    )


async def test_the_verbatim_system_prompt_is_sent_word_by_word() -> None:
    for given in ({"system_prompt": SYSTEM}, {"system_prompt_file": SYSTEM}):
        warm, measured = await wire(**given)
        assert {conversation[0] for conversation in warm + measured} == {("system", SYSTEM)}


async def test_a_warm_up_that_is_isolated_leaves_profiling_as_it_is_without_a_target() -> None:
    for target in ("warmup_isolation_system", "warmup_isolation_first_turn"):
        _, plain = await wire(system_prompt=SYSTEM)
        _, measured = await wire(system_prompt=SYSTEM, cache_bust=target)
        assert measured == plain


async def test_a_shared_system_prompt_is_one_text_and_a_context_one_for_each_session() -> None:
    _, shared = await wire(shared_system_prompt_length=48)
    _, own = await wire(user_context_prompt_length=48)
    assert len({conversation[0] for conversation in shared}) == 1
    assert len({conversation[0] for conversation in own}) == TRAJECTORIES


async def test_a_pool_puts_its_prefixes_before_the_questions() -> None:
    _, measured = await wire(num_prefix_prompts=1, prefix_prompt_length=48)
    heads = {text[:100] for ((_, text),) in measured}
    assert len(heads) == 1
    assert len({text for ((_, text),) in measured}) == TRAJECTORIES
