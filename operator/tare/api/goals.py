"""`spec.goals`, `goodput`, `cost` and `stopOn`: what the numbers are held against."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from tare.api.fields import Duration, Model, Number, Quantity, Rule
from tare.api.metrics import DISTRIBUTIONS, Bound, Metric, Statistic, bound_of
from tare.api.quantity import QuantityError, parse_duration, parse_fraction, parse_number

__all__ = ["Cost", "Goal", "Goodput", "StopOn"]

_PARSERS = {
    Bound.DURATION: parse_duration,
    Bound.FRACTION: parse_fraction,
    Bound.NUMBER: parse_number,
}
_WORDS = {
    Bound.DURATION: "is a duration: write a number and ms, s, m or h, as 500ms",
    Bound.FRACTION: "is a share of 0 to 1: write a percentage as 1%, or a fraction as 0.01",
    Bound.NUMBER: "is a plain number: write it without a unit",
}

_SCALAR: Statistic = "mean"
"""The only statistic of a metric that is one number for each trial: its mean over trials."""


def _fits(kind: Bound, value: str | float | None) -> bool:
    try:
        return value is None or _PARSERS[kind](value) >= 0
    except QuantityError:
        return False


def _parsed(metric: Metric, value: str | float | None) -> float | None:
    return None if value is None else _PARSERS[bound_of(metric)](value)


def _bound_rule(field: str, kind: Bound) -> Rule:
    return Rule(
        field=field,
        holds=lambda goal: bound_of(goal.metric) != kind or _fits(kind, getattr(goal, field)),
        message=f"the bound of this metric {_WORDS[kind]}",
    )


class Goal(Model):
    """A bound that every cell is held against."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["min"]}, {"required": ["max"]}]}
    )

    RULES = (
        Rule(
            holds=lambda goal: (goal.min is None) != (goal.max is None),
            message="a goal has exactly one of min and max; write two goals for a range",
        ),
        Rule(
            field="statistic",
            holds=lambda goal: goal.metric not in DISTRIBUTIONS or goal.statistic is not None,
            cel=f"!(self.metric in {list(DISTRIBUTIONS)}) || has(self.statistic)",
            message="this metric has a value for each request; say which statistic, as p99",
        ),
        Rule(
            field="statistic",
            holds=lambda goal: goal.metric in DISTRIBUTIONS or goal.statistic in (None, _SCALAR),
            cel=f"self.metric in {list(DISTRIBUTIONS)} || !has(self.statistic) "
            f"|| self.statistic == '{_SCALAR}'",
            message="this metric is one number for each trial; remove statistic",
        ),
        *(_bound_rule(field, kind) for field in ("min", "max") for kind in Bound),
    )

    metric: Metric
    """Name of the metric."""
    statistic: Statistic | None = None
    """Which statistic, for metrics that have a value for each request."""
    min: Quantity | None = None
    """The value must not be below: 500ms for durations, 1% for shares, else a number."""
    max: Quantity | None = None
    """The value must not be above: 500ms for durations, 1% for shares, else a number."""

    @property
    def statistic_or_mean(self) -> Statistic:
        """The statistic that is compared; a metric of one number has a mean over trials only."""
        return self.statistic or _SCALAR

    @property
    def lower(self) -> float | None:
        """`min` in seconds, as a fraction of 1, or as a number."""
        return _parsed(self.metric, self.min)

    @property
    def upper(self) -> float | None:
        """`max` in seconds, as a fraction of 1, or as a number."""
        return _parsed(self.metric, self.max)


class Goodput(Model):
    """Limits that a request must meet to be good; all that are given."""

    model_config = ConfigDict(alias_generator=None, json_schema_extra={"minProperties": 1})

    RULES = (
        Rule(
            holds=lambda goodput: bool(goodput.limits),
            message="give at least one limit, as time_to_first_token: 500ms",
        ),
    )

    time_to_first_token: Duration | None = None
    """Limit of the time to the first token, as 500ms."""
    time_to_first_output_token: Duration | None = None
    """Limit of the time to the first token that is not reasoning."""
    time_per_output_token: Duration | None = None
    """Limit of the time for each token after the first."""
    inter_chunk_latency: Duration | None = None
    """Limit of the mean gap between two chunks of a request."""
    request_latency: Duration | None = None
    """Limit of the time to the last token."""
    request_latency_from_due: Duration | None = None
    """Limit of the time from the moment the request was due to its last token."""

    @property
    def limits(self) -> dict[str, float]:
        """Metric name to limit in seconds."""
        given = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: parse_duration(text) for name, text in given if text is not None}


class Cost(Model):
    """What the model service costs."""

    usd_per_hour: Number
    """US dollars an hour for one replica, in quotes: '2.608'."""
    replicas: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of replicas that are paid for."""


class StopOn(Model):
    """When a cell that only fails is given up."""

    RULES = (
        Rule(
            field="errorRate",
            holds=lambda stop: _fits(Bound.FRACTION, stop.error_rate),
            message=f"errorRate {_WORDS[Bound.FRACTION]}",
        ),
    )

    error_rate: Quantity
    """Share of failed requests above which the cell is given up, as 20%."""
    after_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    """Judge no earlier than after this many requests."""

    @property
    def error_fraction(self) -> float:
        """`errorRate` as a fraction of 1."""
        return parse_fraction(self.error_rate)
