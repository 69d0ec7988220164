from __future__ import annotations

import pytest

from tare.api.reasons import Reason
from tare.measure.cell import Aggregate, CellSummary, Headline, aggregate, headlines
from tare.measure.concerns import Concern
from tare.measure.trial import ClientHealth, TrialSummary
from tare.measure.wire import decode, encode


def trial(p99: float | None = 0.2, *, concerns: tuple[Concern, ...] = ()) -> TrialSummary:
    return TrialSummary(
        phases=(),
        counts={"issued": 100, "ok": 98},
        metrics={"time_to_first_token": {"p99": p99}} if p99 is not None else {},
        client=ClientHealth(workers=1),
        concerns=concerns,
    )


def concern(message: str, reason: Reason = Reason.CLIENT_SATURATED) -> Concern:
    return Concern(reason=reason, message=message)


def test_a_statistic_of_a_cell_is_the_mean_of_its_trials_with_an_interval() -> None:
    cell = aggregate([trial(0.10), trial(0.12), trial(0.14)])

    found = cell.aggregate("time_to_first_token", "p99")
    assert found is not None
    assert found.mean == pytest.approx(0.12)
    assert found.stddev == pytest.approx(0.02)
    assert found.half_width == pytest.approx(0.04968, abs=5e-6)


@pytest.mark.parametrize(
    ("values", "stddev"), [([0.2], None), ([0.2, 0.4], pytest.approx(0.1414, abs=1e-4))]
)
def test_fewer_than_three_trials_show_no_interval(
    values: list[float], stddev: float | None
) -> None:
    found = aggregate([trial(value) for value in values]).aggregate("time_to_first_token", "p99")

    assert found is not None
    assert (found.stddev, found.half_width) == (stddev, None)


def test_a_trial_that_lacks_a_statistic_does_not_count_for_it() -> None:
    cell = aggregate([trial(0.2), trial(None)])

    assert cell.trials == 2
    assert cell.aggregate("time_to_first_token", "p99") == Aggregate(mean=0.2, trials=1)
    assert cell.aggregate("request_latency", "p99") is None


def test_counts_of_all_trials_stand_beside_the_numbers() -> None:
    assert aggregate([trial(), trial()]).counts == {"issued": 200, "ok": 196}


def test_concerns_are_named_once_with_the_trials_that_have_them() -> None:
    cell = aggregate(
        [
            trial(),
            trial(concerns=(concern("Lag 12 ms."), concern("2 of 9.", Reason.EMPTY_OUTPUT))),
            trial(concerns=(concern("Lag 15 ms."),)),
        ]
    )

    assert cell.concerns == (
        concern("Trial 1 (also 2): Lag 12 ms."),
        concern("Trial 1: 2 of 9.", Reason.EMPTY_OUTPUT),
    )


def test_headlines_are_those_that_were_measured() -> None:
    cell = aggregate([trial(0.1)])

    assert headlines(cell) == (
        Headline(metric="time_to_first_token", statistic="p99", mean=0.1, half_width=None),
    )
    assert cell.means() == {"time_to_first_token": {"p99": 0.1}}


def test_a_cell_survives_its_way_through_a_config_map() -> None:
    cell = aggregate([trial(0.1), trial(0.2), trial(0.4, concerns=(concern("Lag."),))])

    assert decode(CellSummary, encode(cell)) == cell
