from __future__ import annotations

import pytest

from tare.sim.core.areas import average
from tare.sim.core.stages import (
    BUSY,
    DONE,
    NUMBER,
    SERVED,
    WAITED,
    Stage,
    add_job,
    begin,
    complete,
    join,
    leave_shared,
    new_stage,
    next_in_line,
    pass_through,
    remaining_shared,
    serve_shared,
    share,
)


def stage_for(sessions: int) -> Stage:
    stage = new_stage()
    for _ in range(sessions):
        add_job(stage)
    return stage


def test_jobs_that_find_no_free_server_wait_in_order_of_arrival() -> None:
    stage = stage_for(4)
    started = [join(stage, session, 1.0, 2, float(session)) for session in (1, 2, 3, 4)]
    assert started == [True, True, False, False]
    complete(stage, 1, 5.0, 0.0)
    assert next_in_line(stage) == 3
    begin(stage, 3, 5.0)
    complete(stage, 2, 6.0, 0.0)
    assert [next_in_line(stage), next_in_line(stage)] == [4, 0]


def test_waiting_and_service_are_counted_when_a_job_is_done_after_the_warm_up() -> None:
    stage = stage_for(2)
    join(stage, 1, 3.0, 1, 0.0)
    join(stage, 2, 4.0, 1, 1.0)
    complete(stage, 1, 3.0, 3.5)
    begin(stage, next_in_line(stage), 3.0)
    complete(stage, 2, 7.0, 3.5)
    assert (stage.counts[DONE], stage.sums[WAITED], stage.sums[SERVED]) == (1, 2.0, 4.0)


def test_a_stage_is_busy_while_any_job_is_there() -> None:
    stage = stage_for(2)
    join(stage, 1, 3.0, 9, 0.0)
    join(stage, 2, 4.0, 9, 2.0)
    complete(stage, 1, 3.0, 0.0)
    complete(stage, 2, 6.0, 0.0)
    assert average(stage.levels, BUSY, 0.0, 10.0) == pytest.approx(0.6)
    assert average(stage.levels, NUMBER, 0.0, 10.0) == pytest.approx(0.7)


def test_a_job_without_work_counts_as_done() -> None:
    stage = stage_for(1)
    pass_through(stage, 1.0, 2.0)
    pass_through(stage, 2.0, 2.0)
    assert stage.counts[DONE] == 1


def test_shared_service_is_split_equally_and_short_jobs_leave_first() -> None:
    stage = stage_for(2)
    share(stage, 1, 3.0, 1, 0.0)
    assert remaining_shared(stage, 1.0) == 3.0
    serve_shared(stage, 1.0, 1.0)  # job 1 has 2 s left
    share(stage, 2, 1.0, 2, 1.0)
    assert remaining_shared(stage, 1.0) == 2.0  # job 2 at half speed
    serve_shared(stage, 1.0, 3.0)
    assert leave_shared(stage, 3.0, 0.0) == 2
    assert remaining_shared(stage, 1.0) == pytest.approx(1.0)
    serve_shared(stage, 1.0, 4.0)
    assert leave_shared(stage, 4.0, 0.0) == 1
