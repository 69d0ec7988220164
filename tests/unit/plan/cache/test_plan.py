"""The plan of a trial: what each phase is said to find, and why nothing may be said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.manifest_builder import order_of, phase
from support.measured import phase_result
from support.virtual_load import describe
from tare.measure.rows import Rows
from tare.plan.cache.expected import Expected, Servers
from tare.plan.cache.plan import (
    CacheSettings,
    PhasePlan,
    assumptions,
    merged,
    plan_after,
    plan_before,
)

if TYPE_CHECKING:
    from tare.measure.messages import PhaseResult

SERVERS = Servers(block=16)
WARMUP = phase(name="warmup", kind="warmup", requests=20)
TIMED = phase(requests=None, durationSeconds=9)


def before(*phases: dict[str, Any], **settings: Any) -> tuple[PhasePlan, ...]:
    order = order_of(dataset={"entries": 40, "prompts": {"isl": 400, "osl": 4}}, phases=phases)
    outline = describe(order.dataset, chat=True)[1]
    plan = CacheSettings(**{"servers": SERVERS, "at_start": True, **settings})
    return plan_before(outline, order.phases, plan)


def after(
    *phases: dict[str, Any], results: list[PhaseResult], **settings: Any
) -> tuple[PhasePlan, ...]:
    order = order_of(dataset={"entries": 40, "prompts": {"isl": 400, "osl": 4}}, phases=phases)
    outline = describe(order.dataset, chat=True)[1]
    plan = CacheSettings(**{"servers": SERVERS, "at_start": True, **settings})
    return plan_after(outline, order.phases, plan, results=results, skew={})


def sent(issued: int, ok: int | None = None, kind: str = "profiling") -> PhaseResult:
    counts = {"issued": issued, "ok": issued if ok is None else ok}
    return phase_result(name=kind, kind=kind, counts=counts)


def interval(plan: PhasePlan) -> tuple[int, int]:
    assert plan.expected is not None
    return plan.expected.low, plan.expected.high


def test_every_phase_begins_at_the_first_entry() -> None:
    warmup, profiling = before(WARMUP, phase(requests=40))
    assert (interval(warmup), interval(profiling)) == ((0, 0), (20 * 400, 20 * 400))
    assert (warmup.why, profiling.why) == ("", "")


def test_a_reset_before_profiling_takes_what_warm_up_left() -> None:
    for at_start in (True, False):
        warmup, profiling = before(
            WARMUP, phase(requests=40), at_start=at_start, before_profiling=True
        )
        assert interval(profiling) == (0, 0)
        assert warmup.known_start is at_start
        assert profiling.known_start


def test_a_second_profiling_phase_is_not_reset() -> None:
    again = phase(name="again", requests=40)
    plans = before(phase(requests=40), again, before_profiling=True)
    assert interval(plans[1]) == (40 * 400, 40 * 400)


def test_a_loop_that_time_ends_blinds_the_plan_until_a_reset() -> None:
    timed = {**TIMED, "name": "warmup", "kind": "warmup"}
    warmup, profiling = before(timed, phase(requests=40))
    assert (warmup.expected, profiling.expected) == (None, None)
    assert profiling.why == warmup.why
    assert "is the server's doing" in warmup.why
    assert before(timed, phase(requests=40), before_profiling=True)[1].is_decidable


def test_after_the_run_its_counts_say_how_many_were_sent() -> None:
    results = [sent(20, kind="warmup"), sent(33)]
    plans = after(WARMUP, TIMED, results=results)
    assert plans[1].expected is not None
    assert plans[1].expected.requests == 33
    assert interval(plans[1]) == (20 * 400, 20 * 400)


@pytest.mark.parametrize(("senders", "decided"), [(1, True), (2, False)])
def test_which_prompts_several_senders_got_to_in_a_time_is_not_known(
    senders: int, decided: bool
) -> None:
    timed = {**TIMED, "name": "warmup", "kind": "warmup"}
    results = [sent(20, kind="warmup"), sent(40)]
    profiling = after(timed, phase(requests=40), results=results, senders=senders)[1]
    assert profiling.is_decidable is decided
    assert ("which prompts the workers of phase warmup have sent" in profiling.why) is not decided


def test_requests_that_failed_are_told_as_the_reason() -> None:
    results = [sent(20, 10, kind="warmup"), sent(40)]
    profiling = after(WARMUP, phase(requests=40), results=results)[1]
    assert "10 requests of phase warmup failed" in profiling.why
    assert interval(profiling) == (20 * 400 - 10 * 412, 20 * 400)


def test_what_a_seamless_phase_left_in_flight_may_come_late() -> None:
    seamless = {**WARMUP, "kind": "profiling", "seamless": True}
    plans = before(seamless, phase(requests=40))
    assert interval(plans[1]) == (0, 20 * 400)


def test_a_million_requests_are_planned_like_a_few() -> None:
    warmup, profiling = before(WARMUP, phase(requests=1_000_000))
    assert (interval(warmup), profiling.why) == ((0, 0), "")
    assert profiling.expected is not None
    assert profiling.expected.requests == 1_000_000
    cold = 20 * 400
    assert interval(profiling) == (400 * 1_000_000 - 4 * cold, 400 * 1_000_000 - cold)


def test_many_requests_after_a_phase_with_gaps_are_not_planned() -> None:
    """Several workers that time ends are not equally far: there is no first so many."""
    timed = {**TIMED, "name": "warmup", "kind": "warmup"}
    gaps = Rows()
    for number in (0, 2):
        gaps.add_all([[number], [number], [number], *[[0]] * 6])
    warmup = replace(sent(2, kind="warmup"), rows=gaps.to_json())
    for issued, why in ((100_000, ""), (100_001, "phase profiling: it has more than 100,000 req")):
        results = [warmup, sent(issued)]
        profiling = after(timed, phase(requests=issued), results=results, senders=2)[1]
        assert profiling.why[: len(why) or None] == why


def test_plans_for_several_block_sizes_are_covered_by_one() -> None:
    def plan(low: int, high: int, **fields: Any) -> tuple[PhasePlan, ...]:
        expected = Expected(low=low, high=high, prompt_tokens=1000, most=900)
        return (PhasePlan(name="p", kind="profiling", expected=expected, **fields),)

    (one,) = merged([plan(480, 500), plan(470, 490)])
    assert (interval(one), one.is_decidable) == ((470, 500), True)
    (wide,) = merged([plan(480, 500), plan(400, 420)])
    assert wide.why.startswith("10% of the prompt tokens wide: no server says")
    assert merged([plan(1, 2, why="x")]) == plan(1, 2, why="x")


def test_assumptions_are_those_that_the_plan_rests_on() -> None:
    order = order_of(phases=[phase()])
    outline = describe(order.dataset, chat=True)[1]
    said = assumptions(
        outline,
        CacheSettings(
            servers=Servers(block=32, replicas=3, blocks=9),
            before_profiling=True,
            block_known=False,
        ),
    )
    assert len(said) == 4
    assert "whole blocks of 32 tokens (assumed)" in said[1]
    assert said[2].startswith("3 replicas")
    assert said[3].startswith("The reset comes before profiling")
