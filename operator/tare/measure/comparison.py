"""A cell of two runs: how much a metric differs, how sure that is, and what it means.

The interval comes from what is independent. From three trials a side on that is the trials: of
means, their values over the requests that all of them answered, of everything else, the trials'
own statistic. With fewer trials only the mean of a request's metric has an interval, by batch means
over the requests' differences; it knows what happened within the trials and not how much a
repetition would differ. A percentile or a rate of a single trial has none: intervals from order
statistics take requests for independent, which in a queue they are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tare.measure.cell import INTERVAL_FROM
from tare.measure.estimate import BATCHES, LEAST_VALUES, Estimate, batch_means, welch
from tare.measure.holm import holm
from tare.measure.intervals import CONFIDENCE
from tare.measure.metrics import HEADLINES, METRICS, SCALAR_STATISTIC, Better
from tare.measure.paired import PAIRED_METRICS
from tare.measure.side import Measure, Side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.measure.paired import Pairs, Values

__all__ = ["OTHERS", "Change", "Difference", "Method", "compare", "compare_others", "judge"]

_MEAN: Final = SCALAR_STATISTIC
OTHERS: Final = tuple(
    Measure(metric=metric, statistic=statistic)
    for metric, statistic in (
        ("time_to_first_token", _MEAN),
        ("time_per_output_token", _MEAN),
        ("request_latency", _MEAN),
        *HEADLINES,
    )
)
"""What is shown besides the primary metric: the headlines, and means that are paired by request."""
_REMEDY: Final = f"measure both runs with spec.trials.count: {INTERVAL_FROM} or more"


class Change(StrEnum):
    """What a difference means, given how large a difference is tolerated."""

    BETTER = "Better"
    """By more than the tolerance, for sure."""
    WITHIN_TOLERANCE = "WithinTolerance"
    """No difference beyond the tolerance in either direction, for sure."""
    NOT_WORSE = "NotWorse"
    """Better or about the same: only that it is worse beyond the tolerance is ruled out."""
    WORSE = "Worse"
    """By more than the tolerance, for sure."""
    NOT_CONCLUSIVE = "NotConclusive"


class Method(StrEnum):
    """What an interval was made from."""

    PAIRED_TRIALS = "PairedTrials"
    """Welch's t on the trials' means over the requests that every trial answered."""
    PAIRED_REQUESTS = "PairedRequests"
    """Batch means over the differences of the requests that every trial answered."""
    TRIALS = "Trials"
    """Welch's t on the trials' statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric in both runs; times in seconds."""

    metric: str
    statistic: str
    baseline: float | None
    """None when a trial does not have it."""
    candidate: float | None
    difference: float | None = None
    """`candidate` - `baseline`."""
    half_width: float | None = None
    """The 95 % interval is `difference` plus and minus this; None when there is no sound one."""
    relative: float | None = None
    """The difference as a part of the baseline's value, as if that was known exactly; None when it
    is 0."""
    relative_half_width: float | None = None
    """The half width as the same part."""
    p_value: float | None = None
    """Of a difference as large as this where there is none."""
    p_adjusted: float | None = None
    """The same for all other metrics of the cell together, by Holm; None for the primary one."""
    method: Method | None = None
    basis: str = ""
    """What the numbers are about: how many trials, and which requests."""
    change: Change = Change.NOT_CONCLUSIVE
    doubt: str = ""
    """Why it is not conclusive, and what would help."""


def compare(
    measure: Measure, baseline: Side, candidate: Side, pairs: Pairs | None, *, tolerance: float
) -> Difference:
    """Compare one metric; `tolerance` is a part of the baseline's value.

    Whatever order trials and requests are given in, the result is the same.
    """
    is_paired = pairs is not None and _is_mean_of_requests(measure)
    values = pairs.values(measure.metric) if pairs is not None and is_paired else None
    found = _by_request(measure, values) if values else _by_trial(measure, baseline, candidate)
    if found.half_width is None or found.difference is None:
        return found
    change = judge(found, better=METRICS[measure.metric].better, tolerance=tolerance)
    doubt = ""
    if change is Change.NOT_CONCLUSIVE:
        doubt = (
            f"it may be worse by more than the tolerated {tolerance * 100:g} %, or not; more "
            "trials or more requests make the interval narrower"
        )
    return replace(found, change=change, doubt=doubt)


def compare_others(
    primary: Measure, baseline: Side, candidate: Side, pairs: Pairs | None, *, tolerance: float
) -> tuple[Difference, ...]:
    """Compare every other metric that both runs have, with p-values that are adjusted together."""
    found = [
        compare(measure, baseline, candidate, pairs, tolerance=tolerance)
        for measure in OTHERS
        if measure != primary
    ]
    shown = [one for one in found if one.baseline is not None and one.candidate is not None]
    tested = [one.p_value for one in shown if one.p_value is not None]
    adjusted = iter(holm(tested))
    return tuple(one if one.p_value is None else _corrected(one, next(adjusted)) for one in shown)


def judge(found: Difference, *, better: Better, tolerance: float) -> Change:
    """Say what the interval of a difference means.

    The whole interval has to lie beyond the tolerance for a change, and within it for none.
    """
    assert found.difference is not None
    assert found.half_width is not None
    worse = -found.difference if better is Better.HIGHER else found.difference
    low, high = worse - found.half_width, worse + found.half_width
    allowed = tolerance * abs(found.baseline or 0.0)
    if low > allowed:
        return Change.WORSE
    if high < -allowed:
        return Change.BETTER
    if high > allowed:
        return Change.NOT_CONCLUSIVE
    return Change.WITHIN_TOLERANCE if low >= -allowed else Change.NOT_WORSE


def _corrected(found: Difference, p_adjusted: float) -> Difference:
    """Take a change back that is one only as long as nothing else is looked at."""
    is_change = found.change in (Change.BETTER, Change.WORSE)
    if not is_change or p_adjusted <= 1 - CONFIDENCE:
        return replace(found, p_adjusted=p_adjusted)
    doubt = "a change as large would not be rare among so many metrics"
    return replace(found, p_adjusted=p_adjusted, change=Change.NOT_CONCLUSIVE, doubt=doubt)


def _is_mean_of_requests(measure: Measure) -> bool:
    return measure.statistic == _MEAN and measure.metric in PAIRED_METRICS


def _by_request(measure: Measure, values: Values) -> Difference:
    """Compare a mean over the same requests in every trial."""
    before, after = (
        [fmean(trial) for trial in side] for side in (values.baseline, values.candidate)
    )
    number = len(values.baseline[0])
    if _are_enough(before, after):
        return _with(
            _found(measure, before, after, f"{number} requests, each in {_trials(before, after)}"),
            welch(before, after),
            Method.PAIRED_TRIALS,
        )
    found = _found(measure, before, after, f"{number} requests, {BATCHES} batches")
    estimate = batch_means(values.differences)
    if estimate is not None:
        return _with(found, estimate, Method.PAIRED_REQUESTS)
    if number < LEAST_VALUES:
        doubt = (
            f"only {number} requests can be paired and {LEAST_VALUES} are needed; send more, or "
            f"{_REMEDY}"
        )
    else:
        doubt = (
            "the difference drifts through the whole trial, so that its requests are no "
            f"repetitions; let the phase last longer, or {_REMEDY}"
        )
    return replace(found, basis=f"{number} requests", doubt=doubt)


def _by_trial(measure: Measure, baseline: Side, candidate: Side) -> Difference:
    """Compare the trials' own statistics."""
    before, after = baseline.values(measure), candidate.values(measure)
    lacking = [
        name
        for name, side, found in (("baseline", baseline, before), ("candidate", candidate, after))
        if len(found) < len(side.trials)
    ]
    if lacking:
        return Difference(
            metric=measure.metric,
            statistic=measure.statistic,
            baseline=None if "baseline" in lacking else fmean(before),
            candidate=None if "candidate" in lacking else fmean(after),
            doubt=f"the {' and the '.join(lacking)} did not measure it; --metric names another",
        )
    found = _found(measure, before, after, _trials(before, after))
    if not _are_enough(before, after):
        return replace(
            found,
            doubt=f"{_single(measure)} has no sound interval with {_trials(before, after)}; "
            f"{_REMEDY}",
        )
    return _with(found, welch(before, after), Method.TRIALS)


def _found(
    measure: Measure, before: Sequence[float], after: Sequence[float], basis: str
) -> Difference:
    baseline, candidate = fmean(before), fmean(after)
    return Difference(
        metric=measure.metric,
        statistic=measure.statistic,
        baseline=baseline,
        candidate=candidate,
        difference=candidate - baseline,
        relative=_part(candidate - baseline, baseline),
        basis=basis,
    )


def _with(found: Difference, estimate: Estimate, method: Method) -> Difference:
    half_width, baseline = estimate.half_width(CONFIDENCE), found.baseline or 0.0
    return replace(
        found,
        difference=estimate.value,
        half_width=half_width,
        relative=_part(estimate.value, baseline),
        relative_half_width=_part(half_width, baseline),
        p_value=estimate.p_value,
        method=method,
    )


def _part(value: float, baseline: float) -> float | None:
    return value / abs(baseline) if baseline else None


def _are_enough(*sides: Sequence[float]) -> bool:
    return all(len(side) >= INTERVAL_FROM for side in sides)


def _trials(before: Sequence[float], after: Sequence[float]) -> str:
    return f"{len(before)} and {len(after)} trials"


def _single(measure: Measure) -> str:
    if measure.statistic != _MEAN:
        return f"{measure.statistic} of a trial"
    if _is_mean_of_requests(measure):
        return "a mean over other requests"
    return "a number of a whole trial"
