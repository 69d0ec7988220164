"""The scenario table of the design: which tokens of a profiling prompt the warm-up has sent.

Every body is the one that the worker would send, from a manifest; the cache is the simulated
server's, with blocks of one token, so that the first difference shows to the token. Another
trajectory is the next replay of the same text: nothing but the marker can tell the two apart.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.manifest_builder import order_of, phase, spec_of
from tare.api.problems import check_spec
from tare.api.warnings import find_warnings
from tare.sim.core.memory import Memory, block_keys
from tare.sim.tokens import encode, encode_chat
from tare.worker.workload import Workload

if TYPE_CHECKING:
    from tare.plan.order import WorkOrder

ENTRIES = 4
VERBATIM = "You are a helpful assistant."
MODES: dict[str, dict[str, Any]] = {
    "no prefix": {},
    "shared system": {"sharedSystemLength": 64},
    "verbatim system": {"systemPrompt": VERBATIM},
    "user context": {"userContextLength": 48},
    "prefix pool": {"poolSize": 4, "poolLength": 40},
}
ALL, SYSTEM, SYSTEM_END, TURN, TURN_END = "all", "system", "system end", "turn", "turn end"
REFUSED = "refused"
WITHOUT_SYSTEM = {
    "none": ALL,
    "system_prefix": TURN,
    "system_suffix": TURN_END,
    "first_turn_prefix": TURN,
    "first_turn_suffix": TURN_END,
    "warmup_isolation_system": REFUSED,
    "warmup_isolation_first_turn": TURN,
}
WITH_SYSTEM = {
    "none": ALL,
    "system_prefix": SYSTEM,
    "system_suffix": SYSTEM_END,
    "first_turn_prefix": TURN,
    "first_turn_suffix": TURN_END,
    "warmup_isolation_system": SYSTEM,
    "warmup_isolation_first_turn": TURN,
}
"""Where what all trajectories share ends."""
TABLE = {mode: WITH_SYSTEM if mode.endswith("system") else WITHOUT_SYSTEM for mode in MODES}
CELLS = [
    (mode, target, scope)
    for mode, target, scope in product(MODES, WITH_SYSTEM, ("Trajectory", "TrajectoryAndPhase"))
    if TABLE[mode][target] != REFUSED
]


def fields(mode: str, target: str, scope: str = "Trajectory") -> dict[str, Any]:
    warmup = phase(name="warmup", kind="warmup", requests=2 * ENTRIES)
    return {
        "dataset": {
            "entries": ENTRIES,
            "prompts": {"isl": 64, "cacheBust": {"target": target, "scope": scope}},
            "prefixPrompts": MODES[mode],
        },
        "phases": [warmup, phase(requests=2 * ENTRIES)],
    }


def messages(order: WorkOrder, phase_index: int, number: int) -> list[dict[str, str]]:
    prompts = Workload(order, 0, None).prompts(order.phases[phase_index])
    found: list[dict[str, str]] = orjson.loads(prompts.request(number)[2])["messages"]
    return found


def tokens(conversation: list[dict[str, str]]) -> list[int]:
    return encode_chat((message["role"], message["content"]) for message in conversation)


def found_warm(order: WorkOrder, warm: int, measured: int) -> int:
    """Tokens of a profiling prompt that hit when the warm-up has sent one prompt."""
    memory = Memory(10_000, block_size=1)
    keys = block_keys(tokens(messages(order, 0, warm)), 1)
    hold = memory.hold([], len(keys), room=len(keys))
    assert hold is not None
    memory.fill(hold, keys)
    memory.release(hold)
    again = block_keys(tokens(messages(order, 1, measured)), 1)
    # One token more than the prompt has: a server computes the last one, and no hit would be it.
    return memory.find(again, len(again) + 1)


def boundary(conversation: list[dict[str, str]], place: str) -> int:
    """Number of tokens up to a place of a prompt; a marker ends it."""
    if place == ALL:
        return len(tokens(conversation))
    index = 0 if place in (SYSTEM, SYSTEM_END) else len(conversation) - 1
    before = len(tokens(conversation[:index])) - len(tokens([]))
    opening = len(tokens([{"role": "user", "content": ""}])) - len(tokens([])) - 2
    text = conversation[index]["content"].partition("[rid:")[0].rstrip("\n")
    return before + opening + (len(encode(text)) if place.endswith("end") else 0)


@pytest.mark.parametrize(("mode", "target", "scope"), CELLS)
def test_another_trajectory_shares_what_stands_before_the_marker(
    mode: str, target: str, scope: str
) -> None:
    order = order_of(**fields(mode, target, scope))
    measured = messages(order, 1, 0)
    assert found_warm(order, ENTRIES, 0) == boundary(measured, TABLE[mode][target])


@pytest.mark.parametrize(("mode", "target", "scope"), CELLS)
def test_the_same_trajectory_is_warm_unless_the_phases_are_isolated(
    mode: str, target: str, scope: str
) -> None:
    order = order_of(**fields(mode, target, scope))
    isolated = target.startswith("warmup") or scope == "TrajectoryAndPhase"
    place = TABLE[mode][target] if isolated else ALL
    assert found_warm(order, 0, 0) == boundary(messages(order, 1, 0), place)


@pytest.mark.parametrize("mode", MODES)
def test_what_has_no_place_for_its_marker_is_refused_or_told(mode: str) -> None:
    for target, place in TABLE[mode].items():
        spec, _ = check_spec(spec_document(mode, target))
        assert (spec is None) == (place == REFUSED), target
        falls_through = place != REFUSED and place != WITH_SYSTEM[target]
        if spec is not None:
            assert any(find_warnings(spec)) == falls_through, target


def spec_document(mode: str, target: str) -> dict[str, Any]:
    endpoint = spec_of().endpoint.model_dump(by_alias=True, exclude_none=True)
    return {"endpoint": {k: v for k, v in endpoint.items() if k in ("service", "model")}} | fields(
        mode, target
    )


@pytest.mark.parametrize("mode", MODES)
def test_two_conversations_share_their_system_prompt_and_pool_prefix_only(mode: str) -> None:
    order = order_of(**fields(mode, "none"))
    shared = found_warm(order, 1, 0)
    expected = {
        "shared system": boundary(messages(order, 1, 0), SYSTEM_END) + 2 + 5,
        "verbatim system": boundary(messages(order, 1, 0), SYSTEM_END) + 2 + 5,
    }
    if mode == "prefix pool":
        assert shared in (5, 5 + 40)  # Two sessions may have taken the same prefix.
    else:
        assert shared == expected.get(mode, 5)
