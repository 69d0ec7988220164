from __future__ import annotations

from typing import get_args

import pytest

from tare.api import metrics as api
from tare.api.goals import Goodput
from tare.measure.metrics import (
    GOODPUT_METRICS,
    HEADLINES,
    METRICS,
    STATISTICS,
    Better,
    Kind,
    Unit,
    statistics_of,
)

BOUNDS = {Unit.SECONDS: api.Bound.DURATION, Unit.RATIO: api.Bound.FRACTION}


def test_goals_may_name_exactly_the_metrics_that_are_computed() -> None:
    assert set(get_args(api.Metric)) == set(METRICS)
    assert set(get_args(api.Statistic)) == set(STATISTICS)


@pytest.mark.parametrize("name", get_args(api.Metric))
def test_a_goal_takes_a_metric_for_what_it_is(name: api.Metric) -> None:
    metric = METRICS[name]

    assert (metric.kind is Kind.DISTRIBUTION) == (name in api.DISTRIBUTIONS)
    assert api.bound_of(name) is BOUNDS.get(metric.unit, api.Bound.NUMBER)


def test_every_limit_of_goodput_can_be_judged() -> None:
    assert set(Goodput.model_fields) <= set(GOODPUT_METRICS)


def test_headlines_exist() -> None:
    assert all(statistic in statistics_of(metric) for metric, statistic in HEADLINES)


def test_less_time_is_always_better() -> None:
    times = [metric for metric in METRICS.values() if metric.unit is Unit.SECONDS]

    assert {metric.better for metric in times} == {Better.LOWER}


def test_a_scalar_has_one_statistic_and_a_distribution_all() -> None:
    assert statistics_of("error_rate") == ("mean",)
    assert statistics_of("time_to_first_token") == STATISTICS
