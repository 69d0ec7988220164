"""The names of metrics in the API are those that `measure` computes."""

from __future__ import annotations

from typing import get_args

import pytest

from tare.api import metrics as api
from tare.api.goals import Goodput
from tare.measure.metrics import (
    GOODPUT_METRICS,
    METRICS,
    STATISTICS,
    Kind,
    Unit,
)


def names() -> set[str]:
    """Flatten the literals of the API's metric type."""
    return set(get_args(api.Metric))


def test_goals_know_every_metric_that_is_measured_and_no_other() -> None:
    assert names() == set(METRICS)


def test_goals_know_every_statistic() -> None:
    assert set(get_args(api.Statistic)) == set(STATISTICS)


def test_metrics_with_a_value_for_each_request_are_the_distributions() -> None:
    assert set(api.DISTRIBUTIONS) == {n for n, m in METRICS.items() if m.kind is Kind.DISTRIBUTION}


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_bound_is_written_in_the_unit_of_its_metric(name: str) -> None:
    expected = {Unit.SECONDS: api.Bound.DURATION, Unit.RATIO: api.Bound.FRACTION}

    assert api.bound_of(name) == expected.get(METRICS[name].unit, api.Bound.NUMBER)  # type: ignore[arg-type]


def test_goodput_takes_the_limits_that_workers_can_judge() -> None:
    assert set(Goodput.model_fields) == set(GOODPUT_METRICS)


def test_metrics_that_need_a_price_are_in_dollars() -> None:
    assert set(api.COST_METRICS) == {n for n, m in METRICS.items() if m.unit is Unit.USD}
