from __future__ import annotations

import pytest

from tare.api.reasons import Reason
from tare.measure.cell import Aggregate, CellSummary
from tare.measure.goals import (
    Goal,
    GoalVerdict,
    JudgedCell,
    RunVerdict,
    Verdict,
    judge,
    judge_run,
)
from tare.measure.wire import decode, encode

TTFT = Goal(metric="time_to_first_token", statistic="p99", max=0.5)
THROUGHPUT = Goal(metric="request_throughput", min=3)


def cell(ttft: float | None = 0.4, throughput: float = 5.0, *, trials: int = 1) -> CellSummary:
    metrics = {"request_throughput": {"mean": Aggregate(mean=throughput, trials=trials)}}
    if ttft is not None:
        metrics["time_to_first_token"] = {"p99": Aggregate(mean=ttft, trials=1)}
    return CellSummary(trials=trials, counts={}, metrics=metrics)


def judged(*cells: CellSummary | None) -> list[JudgedCell]:
    return [
        JudgedCell(index=index, name=f"rate={index}", summary=summary)
        for index, summary in enumerate(cells)
    ]


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (TTFT, Verdict.PASS),
        (Goal(metric="time_to_first_token", statistic="p99", max=0.4), Verdict.PASS),
        (Goal(metric="time_to_first_token", statistic="p99", max=0.39), Verdict.FAIL),
        (Goal(metric="request_throughput", min=5), Verdict.PASS),
        (Goal(metric="request_throughput", min=5.1), Verdict.FAIL),
        (Goal(metric="request_throughput", min=1, max=4), Verdict.FAIL),
        (Goal(metric="time_to_first_token", statistic="p50", max=9), Verdict.UNKNOWN),
        (Goal(metric="goodput", min=1), Verdict.UNKNOWN),
    ],
)
def test_a_goal_is_judged_by_the_mean_of_its_statistic(goal: Goal, verdict: Verdict) -> None:
    (found,) = judge([goal], cell())

    assert found.verdict is verdict


def test_a_statistic_that_one_trial_lacks_cannot_pass() -> None:
    (found,) = judge([TTFT], cell(trials=2))

    assert (found.verdict, found.measured) == (Verdict.UNKNOWN, None)


def test_a_run_meets_its_goals_when_every_cell_does() -> None:
    verdict = judge_run([TTFT, THROUGHPUT], judged(cell(), cell()))

    assert (verdict.met, verdict.reason) == (True, Reason.ALL_MET)
    assert verdict.message == "All 2 goals are met in all 2 cells."


def test_one_miss_is_enough_and_is_named_with_the_number() -> None:
    verdict = judge_run([TTFT, THROUGHPUT], judged(cell(), cell(ttft=0.6123), None))

    assert (verdict.met, verdict.reason) == (False, Reason.GOALS_MISSED)
    assert verdict.message == ("Cell 1 (rate=1): time_to_first_token p99 <= 500 ms: 612.3 ms.")


def test_many_misses_are_counted_and_the_message_stays_short() -> None:
    verdict = judge_run([TTFT], judged(*[cell(ttft=0.9)] * 300))

    assert verdict.message.endswith("; and 295 more.")
    assert len(verdict.message.encode()) < 1024


def test_nothing_is_claimed_while_a_cell_is_not_measured() -> None:
    verdict = judge_run([TTFT], judged(cell(), None))

    assert (verdict.met, verdict.reason) == (None, Reason.NOT_CONCLUSIVE)
    assert verdict.message == "Cell 1 (rate=1): not measured."


def test_nothing_is_claimed_when_a_statistic_is_missing() -> None:
    verdict = judge_run([TTFT], judged(cell(), cell(ttft=None)))

    assert verdict.met is None
    assert verdict.message == "Cell 1 (rate=1): time_to_first_token p99 <= 500 ms: not measured."


def test_nothing_is_claimed_without_goals_or_without_cells() -> None:
    assert judge_run([], judged(cell())).reason is Reason.NO_GOALS
    assert judge_run([TTFT], []).reason is Reason.NOT_CONCLUSIVE


@pytest.mark.parametrize(
    ("goals", "best"),
    [
        ([], 2),
        ([TTFT, THROUGHPUT], 0),
        ([THROUGHPUT, TTFT], 1),
        ([Goal(metric="request_throughput", max=6)], 0),
        ([Goal(metric="request_throughput", min=1, max=6)], 1),
        ([Goal(metric="request_throughput", min=100)], None),
    ],
)
def test_the_best_cell_is_best_by_the_first_goal_among_those_that_meet_all(
    goals: list[Goal], best: int | None
) -> None:
    cells = judged(cell(0.3, 4.0), cell(0.4, 6.0), cell(0.9, 9.0), None)

    assert judge_run(goals, cells).best == best


def test_of_equal_cells_the_first_one_is_the_best() -> None:
    assert judge_run([TTFT], judged(cell(), cell())).best == 0


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (TTFT, "time_to_first_token p99 <= 500 ms"),
        (Goal(metric="error_rate", max=0.01), "error_rate <= 1.000%"),
        (Goal(metric="monthly_cost", min=1, max=2000), "monthly_cost >= 1 and <= 2000"),
    ],
)
def test_a_goal_reads_as_people_write_it(goal: Goal, text: str) -> None:
    assert goal.text == text


def test_verdicts_survive_their_way_through_a_config_map() -> None:
    (found,) = judge([TTFT], cell())
    verdict = judge_run([TTFT], judged(cell()))

    assert decode(GoalVerdict, encode(found)) == found
    assert decode(RunVerdict, encode(verdict)) == verdict
