"""Whatever adds a block to each request is found, in every case that the plan can decide."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from support.manifest_builder import order_of, phase
from support.virtual_load import Replica, Trial, play
from tare.measure.cache import CacheWord
from tare.plan.cache.expected import Servers
from tare.plan.cache.plan import CacheSettings, PhasePlan, plan_after
from tare.plan.cache.verdict import judge_cache, reported

if TYPE_CHECKING:
    from tare.plan.order import WorkOrder

BLOCK = 16
REQUESTS = 40
PREFIXES: dict[str, dict[str, Any]] = {
    "no prefix": {},
    "shared system": {"sharedSystemLength": 400},
    "user context": {"userContextLength": 300},
    "prefix pool": {"poolSize": 3, "poolLength": 400},
}
TARGETS = ("none", "system_prefix", "first_turn_prefix", "first_turn_suffix", "isolation")
RESETS = ("start", "before profiling", "both")


def order(prefix: str, target: str) -> WorkOrder:
    target = target.replace("isolation", "warmup_isolation_first_turn")
    return order_of(
        dataset={
            "prompts": {"isl": 480, "osl": 8, "cacheBust": {"target": target}},
            "prefixPrompts": PREFIXES[prefix],
        },
        phases=[
            phase(name="warmup", kind="warmup", requests=8),
            phase(requests=REQUESTS),
        ],
    )


def emptied(reset: str) -> frozenset[str]:
    both = {"start": "warmup", "before profiling": "profiling"}
    return frozenset(both.values() if reset == "both" else (both[reset],))


def plans_of(prefix: str, target: str, reset: str, trial: Trial) -> tuple[PhasePlan, ...]:
    settings = CacheSettings(
        servers=Servers(block=BLOCK),
        at_start=reset != "before profiling",
        before_profiling=reset != "start",
        answers_repeat=True,
    )
    phases = order(prefix, target).phases
    outline = play(order(prefix, target), [Replica(block=BLOCK)]).outline
    return plan_after(outline, phases, settings, results=trial.results, skew={})


def primed(prefix: str, target: str, reset: str) -> Trial:
    """Between the phases a second client sends what profiling sends."""
    replicas = [Replica(block=BLOCK)]
    whole = order(prefix, target)

    def prime(phase: Any, replicas: Any) -> None:
        if phase.kind == "profiling":
            alone = order_of_phase(whole, 1)
            play(alone, replicas)

    return play(whole, replicas, reset=emptied(reset), sabotage=prime)


def unreset(prefix: str, target: str, reset: str) -> Trial:
    """The server says that it emptied its cache, and has not."""
    del reset
    replicas = [Replica(block=BLOCK)]
    play(order(prefix, target), replicas)
    return play(order(prefix, target), replicas)


def stripped(prefix: str, target: str, reset: str) -> Trial:
    """Something on the way takes the markers out."""
    del target
    return play(order(prefix, "none"), [Replica(block=BLOCK)], reset=emptied(reset))


def order_of_phase(whole: WorkOrder, number: int) -> WorkOrder:
    return replace(whole, phases=(whole.phases[number],))


@pytest.mark.parametrize("sabotage", [primed, unreset, stripped])
@pytest.mark.parametrize(("prefix", "target", "reset"), list(product(PREFIXES, TARGETS, RESETS)))
def test_a_block_more_for_each_request_is_found(
    prefix: str, target: str, reset: str, sabotage: Any
) -> None:
    clean = play(order(prefix, target), [Replica(block=BLOCK)], reset=emptied(reset))
    trial = sabotage(prefix, target, reset)
    plans = plans_of(prefix, target, reset, trial)
    found = judge_cache(plans, trial.results, reported(trial.results, None), is_reset=True)
    added = trial.cached[-1] - clean.cached[-1]
    assert plans[-1].is_decidable
    if added >= BLOCK * REQUESTS:
        assert found.verdict is CacheWord.CONTAMINATED
        assert plans[-1].excess, "the first requests are named"
    if not added and trial.cached[0] == clean.cached[0]:
        assert found.verdict is CacheWord.AS_PLANNED
