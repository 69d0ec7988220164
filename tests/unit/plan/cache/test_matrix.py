"""Every prefix mode, target, scope, load and reset in virtual time, against its plan."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from support.cache_matrix import LOADS, RESETS, SCOPES, TARGETS
from support.manifest_builder import order_of, spec_of
from support.virtual_load import Replica, play
from tare.api.problems import check_spec
from tare.measure.cache import CacheWord
from tare.plan.cache.expected import WIDEST, Servers
from tare.plan.cache.plan import CacheSettings, plan_after, plan_before
from tare.plan.cache.verdict import judge_cache, reported

BLOCK = 16
PREFIXES: dict[str, dict[str, Any]] = {
    "no prefix": {},
    "shared system": {"sharedSystemLength": 400},
    "verbatim system": {"systemPrompt": "You are a helpful and patient assistant. " * 20},
    "user context": {"userContextLength": 300},
    "prefix pool": {"poolSize": 3, "poolLength": 400},
}
EMPTIED = {
    "start": frozenset({"warmup"}),
    "before profiling": frozenset({"profiling"}),
    "off": frozenset[str](),
}
"""Phases before which the caches are empty."""
WITHOUT_SYSTEM = ("no prefix", "user context", "prefix pool")


def phase(kind: str, load: str, number: int) -> dict[str, Any]:
    common = {"name": kind, "kind": kind, "type": load}
    match load:
        case "concurrency":
            return {**common, "concurrency": 4, "requests": number}
        case "poisson":
            return {**common, "rate": 200, "requests": number, "durationSeconds": 600}
        case _:
            return {**common, "concurrency": 3, "sessions": number}


def document(prefix: str, target: str, scope: str, load: str, reset: str) -> dict[str, Any]:
    """A run whose profiling goes once round the entries that warm-up has begun, and on."""
    turns = {"turns": {"mean": 2.0}} if load == "sessions" else {}
    return {
        "endpoint": {
            "service": {"name": "s", "port": 80},
            "model": "m",
            "resetKvCache": RESETS[reset],
            "extraBody": {"temperature": 0},
        },
        "dataset": {
            "entries": 30,
            "prompts": {
                "isl": 640,
                "osl": 12,
                "cacheBust": {"target": target, "scope": scope},
            },
            "prefixPrompts": PREFIXES[prefix],
            **turns,
        },
        "phases": [phase("warmup", load, 12), phase("profiling", load, 36)],
    }


def settings_of(spec: Any, replicas: int = 1) -> CacheSettings:
    reset = spec.endpoint.reset
    return CacheSettings(
        servers=Servers(block=BLOCK, replicas=replicas),
        at_start=reset is not None and reset.at_start,
        before_profiling=reset is not None and reset.before_profiling,
        answers_repeat=True,
    )


ROWS = list(product(PREFIXES, TARGETS, SCOPES, LOADS, RESETS))


@pytest.mark.parametrize(("prefix", "target", "scope", "load", "reset"), ROWS)
def test_what_is_not_refused_finds_what_was_planned(
    prefix: str, target: str, scope: str, load: str, reset: str
) -> None:
    fields = document(prefix, target, scope, load, reset)
    if target == "warmup_isolation_system" and prefix in WITHOUT_SYSTEM:
        _, problems = check_spec(fields)
        assert any("warmup_isolation_first_turn" in problem.message for problem in problems)
        return
    order, settings = order_of(**fields), settings_of(spec_of(**fields))
    trial = play(order, [Replica(block=BLOCK)], reset=EMPTIED[reset])
    plans = plan_after(trial.outline, order.phases, settings, results=trial.results, skew={})
    verdict = judge_cache(
        plans, trial.results, reported(trial.results, None), is_reset=settings.is_reset
    )
    assert verdict.verdict is CacheWord.AS_PLANNED, (verdict, plans)
    for plan, cached in zip(plans, trial.cached, strict=True):
        assert plan.expected is not None
        assert plan.expected.low <= cached <= plan.expected.high
    profiling = plans[-1].expected
    assert profiling is not None
    assert profiling.high - profiling.low <= WIDEST * trial.prompts[-1]
    assert abs(profiling.prompt_tokens - trial.prompts[-1]) <= 0.02 * trial.prompts[-1]
    before = plan_before(trial.outline, order.phases, settings)
    for plan, cached in zip(before, trial.cached, strict=True):
        assert plan.expected is not None
        assert plan.expected.low <= cached <= plan.expected.high, plan
