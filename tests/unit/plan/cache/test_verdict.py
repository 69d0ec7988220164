"""What is said of a trial's cache: by the plan, by usage, by counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.measured import histogram, phase_result
from tare.api.reasons import Reason
from tare.measure.cache import CacheWord
from tare.plan.cache.expected import Expected
from tare.plan.cache.plan import PhasePlan
from tare.plan.cache.records import Excess
from tare.plan.cache.verdict import Reported, judge_cache, reported

if TYPE_CHECKING:
    from tare.measure.messages import PhaseResult

WARMUP, PROFILING = "warmup", "profiling"


def planned(
    low: int, high: int, *, kind: str = PROFILING, prompt: int = 1000, **fields: Any
) -> PhasePlan:
    expected = Expected(low=low, high=high, prompt_tokens=prompt, most=prompt)
    return PhasePlan(name=kind, kind=kind, expected=expected, **fields)


def measured(*cached: int, kind: str = PROFILING, ok: int | None = None) -> PhaseResult:
    """A phase whose answers told these cached tokens; `ok` says that more were answered."""
    answered = len(cached) if ok is None else ok
    return phase_result(
        name=kind,
        kind=kind,
        counts={"issued": answered, "ok": answered},
        histograms={
            "cached_tokens": histogram(cached),
            "prompt_tokens": histogram([100] * answered),
        },
    )


def verdict(
    plans: list[PhasePlan],
    results: list[PhaseResult],
    *,
    counted: int | None = None,
    is_reset: bool = True,
) -> tuple[CacheWord, Reason, str]:
    found = judge_cache(plans, results, reported(results, counted), is_reset=is_reset)
    return found.verdict, found.reason, found.message


@pytest.mark.parametrize(
    ("found", "word", "reason"),
    [
        (64, CacheWord.AS_PLANNED, Reason.AS_PLANNED),
        (96, CacheWord.AS_PLANNED, Reason.AS_PLANNED),
        (97, CacheWord.CONTAMINATED, Reason.CONTAMINATED),
        (63, CacheWord.UNVERIFIED, Reason.COLDER_THAN_PLANNED),
    ],
)
def test_inside_the_interval_is_as_planned(found: int, word: CacheWord, reason: Reason) -> None:
    said = verdict([planned(64, 96)], [measured(0, found)])
    assert said[:2] == (word, reason)
    assert f"phase profiling: {found} of 200 prompt tokens were cached, planned 64 to 96" in said[2]


def test_too_much_is_contamination_however_wide_the_plan_is() -> None:
    wide = planned(0, 500, why="50% wide", remedy="one replica")
    assert verdict([wide], [measured(501)])[1] is Reason.CONTAMINATED
    word, reason, message = verdict([wide], [measured(400)])
    assert (word, reason) == (CacheWord.UNVERIFIED, Reason.NOT_DECIDABLE)
    assert message == "phase profiling: 50% wide; what would help: one replica"


def test_a_warm_up_in_doubt_does_no_harm() -> None:
    doubted = planned(0, 900, kind=WARMUP, why="open loop")
    said = verdict([doubted, planned(0, 0)], [measured(5, kind=WARMUP), measured(0)])
    assert said[0] is CacheWord.AS_PLANNED


def test_without_a_reset_too_much_is_no_surprise_but_told() -> None:
    said = verdict([planned(0, 0)], [measured(64)], is_reset=False)
    assert said[:2] == (CacheWord.CONTAMINATED, Reason.WARM_CACHE)
    assert said[2].endswith("planned 0: 64 more")


def test_what_was_cached_before_the_first_reset_is_not_judged() -> None:
    unknown = planned(0, 0, kind=WARMUP, known_start=False)
    said = verdict([unknown, planned(0, 0)], [measured(64, kind=WARMUP), measured(0)])
    assert said[0] is CacheWord.AS_PLANNED


def test_requests_that_found_too_much_are_named_though_the_sum_looks_right() -> None:
    excess = tuple(
        Excess(number=number, entry=number % 3, found=64, explained=0) for number in (7, 9, 11, 12)
    )
    said = verdict([planned(0, 256, excess=excess)], [measured(64, 64, 64, 64)])
    assert said[1] is Reason.CONTAMINATED
    assert "first request 7 (entry 1) found 64, at most 0 explained, request 9" in said[2]
    assert said[2].endswith("and 1 more")


def test_every_answers_usage_is_believed_before_the_counters() -> None:
    assert reported([measured(1, 2), measured(3)], 99) == Reported(
        source="usage", by_phase=(3, 3), total=6
    )


def test_counters_are_taken_where_answers_leave_the_number_out() -> None:
    results = [measured(kind=WARMUP, ok=4), measured(64, ok=4)]
    assert reported(results, 90) == Reported(source="counters", by_phase=(None, None), total=90)
    assert reported(results, None) == Reported(source="usage", by_phase=(0, 64), total=64)
    assert reported([measured(ok=4)], None).total is None


def test_counters_are_held_against_all_phases_together() -> None:
    plans = [planned(0, 32, kind=WARMUP), planned(64, 96)]
    results = [measured(kind=WARMUP, ok=4), measured(ok=4)]
    for counted, reason in (
        (64, Reason.AS_PLANNED),
        (128, Reason.AS_PLANNED),
        (129, Reason.CONTAMINATED),
        (63, Reason.COLDER_THAN_PLANNED),
    ):
        assert verdict(plans, results, counted=counted)[1] is reason
    assert verdict(plans, results)[1] is Reason.NOT_REPORTED
