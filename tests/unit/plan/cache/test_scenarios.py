"""The scenario table of the design: what profiling finds of each part of its prompts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from support.manifest_builder import order_of, phase
from support.virtual_load import describe
from tare.plan.cache.expected import Expected, Servers
from tare.plan.cache.plan import CacheSettings, plan_before

PREFIXES: dict[str, dict[str, Any]] = {
    "no prefix": {},
    "system": {"sharedSystemLength": 400},
    "context": {"userContextLength": 400},
    "pool": {"poolSize": 2, "poolLength": 400},
}
RID = ("system_prefix", "system_suffix", "first_turn_prefix", "first_turn_suffix")
ISOLATING = ("warmup_isolation_system", "warmup_isolation_first_turn")
SETTINGS = CacheSettings(servers=Servers(block=16), at_start=True, answers_repeat=True)


def profiling(prefix: str, target: str, scope: str, *, warmed: bool) -> Expected:
    """The plan of profiling twenty prompts, with or without a warm-up of the same ones."""
    phases = [phase(requests=20)]
    if warmed:
        phases.insert(0, phase(name="warmup", kind="warmup", requests=20))
    bust = {"target": target, "scope": scope}
    order = order_of(
        dataset={
            "prompts": {"isl": 400, "osl": 4, "cacheBust": bust},
            "prefixPrompts": PREFIXES[prefix],
        },
        phases=phases,
    )
    _, outline = describe(order.dataset, chat=True)
    expected = plan_before(outline, order.phases, SETTINGS)[-1].expected
    assert expected is not None
    return expected


def warm(expected: Expected) -> dict[str, bool]:
    """Which parts the warm-up left; a part is at least a block."""
    assert all(one.warm in (0, one.tokens) for one in expected.parts)
    return {one.part: one.warm > 0 for one in expected.parts if one.tokens > 20 * 2 * 16}


def shared(expected: Expected) -> set[str]:
    """Which parts later requests find since earlier ones of the same phase have sent them."""
    return {one.part for one in expected.parts if one.shared and one.tokens > 20 * 2 * 16}


# What warm-up leaves for profiling: the rows and columns of the table.
PRE = {
    "no prefix": {"question": True},
    "system": {"system": True, "question": True},
    "context": {"context": True, "question": True},
    "pool": {"pool": True, "question": True},
}
COLD_FROM = {
    ("no prefix", "warmup_isolation_first_turn"): {"question"},
    ("system", "warmup_isolation_system"): {"system", "question"},
    ("system", "warmup_isolation_first_turn"): {"question"},
    ("context", "warmup_isolation_first_turn"): {"question"},
    ("pool", "warmup_isolation_first_turn"): {"pool", "question"},
}
REFUSED = {(prefix, ISOLATING[0]) for prefix in PREFIXES if prefix != "system"}
ROWS = [row for row in product(PREFIXES, ("none", *RID, *ISOLATING)) if row not in REFUSED]


@pytest.mark.parametrize(("prefix", "target"), ROWS)
def test_warm_up_leaves_what_stands_before_the_first_difference(prefix: str, target: str) -> None:
    cold = COLD_FROM.get((prefix, target), set())
    expected = {part: part not in cold for part in PRE[prefix]}
    assert warm(profiling(prefix, target, "Trajectory", warmed=True)) == expected


# Where a digest stands, everything behind it differs by phase too.
COLD_BEHIND = {
    ("no prefix", "prefix"): {"question"},
    ("no prefix", "suffix"): set[str](),
    ("system", "system_prefix"): {"system", "question"},
    ("system", "system_suffix"): {"question"},
    ("system", "prefix"): {"question"},
    ("system", "suffix"): set[str](),
    ("context", "prefix"): {"question"},
    ("context", "suffix"): set[str](),
    ("pool", "prefix"): {"pool", "question"},
    ("pool", "suffix"): set[str](),
}


def landing(prefix: str, target: str) -> str:
    """Without a system message the system targets fall through to the first user turn."""
    if target.startswith("system") and prefix == "system":
        return target
    return "suffix" if target.endswith("suffix") else "prefix"


@pytest.mark.parametrize(("prefix", "target"), list(product(PREFIXES, RID)))
def test_with_digests_of_each_phase_everything_from_the_marker_on_is_cold(
    prefix: str, target: str
) -> None:
    cold = COLD_BEHIND[prefix, landing(prefix, target)]
    expected = {part: part not in cold for part in PRE[prefix]}
    assert warm(profiling(prefix, target, "TrajectoryAndPhase", warmed=True)) == expected


SHARED = {
    "no prefix": set[str](),
    "system": {"system"},
    "context": set[str](),
    "pool": {"pool"},
}


@pytest.mark.parametrize(("prefix", "target"), [r for r in ROWS if r[1] not in ISOLATING])
def test_trajectories_share_what_stands_before_their_digests(prefix: str, target: str) -> None:
    hidden = {"system": {"system_prefix": {"system"}}, "pool": {"prefix": {"pool"}}}
    unshared = hidden.get(prefix, {}).get(landing(prefix, target), set())
    if target == "none":
        unshared = set()
    found = shared(profiling(prefix, target, "Trajectory", warmed=False))
    assert found == SHARED[prefix] - unshared


def test_a_salt_isolates_the_whole_prompt() -> None:
    phases = [phase(name="warmup", kind="warmup", requests=20), phase(requests=20)]
    for target, is_warm in (("first_turn_suffix", True), ("warmup_isolation_first_turn", False)):
        bust = {"target": target, "carrier": "salt"}
        order = order_of(
            dataset={
                "prompts": {"isl": 400, "osl": 4, "cacheBust": bust},
                "prefixPrompts": {"sharedSystemLength": 400},
            },
            phases=phases,
        )
        _, outline = describe(order.dataset, chat=True)
        expected = plan_before(outline, order.phases, SETTINGS)[-1].expected
        assert expected is not None
        assert warm(expected) == {"system": is_warm, "question": is_warm}
        assert shared(expected) == (set() if is_warm else {"system"})
