"""Requests of two runs side by side: the same manifest sends the same prompts in the same order.

What prompts have to do with a latency, a long one takes longer, is in both runs and drops out of
the difference. A request is taken when every trial of both runs answered it: otherwise the trials
would be about different requests, and the means would tell that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tare.measure.rows import Row, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tare.measure.side import Side
    from tare.measure.trial import TrialSummary

__all__ = ["PAIRED_METRICS", "Pairs", "Values", "match"]

_MICROSECONDS: Final = 1e6
"""In a second."""

Key = tuple[str, int]
"""Phase, and number of the request in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """One metric of matched requests, in the order of sending."""

    baseline: tuple[tuple[float, ...], ...]
    """Of each trial, one value for each request."""
    candidate: tuple[tuple[float, ...], ...]

    @property
    def differences(self) -> list[float]:
        """Of each request: the mean over the candidate's trials less that over the baseline's."""
        before = map(fmean, zip(*self.baseline, strict=True))
        after = map(fmean, zip(*self.candidate, strict=True))
        return [b - a for a, b in zip(before, after, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The requests that both runs answered, and how many only one did."""

    requests: tuple[tuple[tuple[Row, ...], tuple[Row, ...]], ...]
    """Of each the rows of the baseline's trials and of the candidate's; in the order of sending."""
    unmatched: int
    """Answered in every trial of one run and not of the other."""

    @property
    def unmatched_share(self) -> float:
        """Part of the requests that either run answered."""
        return self.unmatched / max(len(self.requests) + self.unmatched, 1)

    def values(self, metric: str) -> Values | None:
        """Return one of `PAIRED_METRICS`, of the requests that have it in each trial.

        None when none has.
        """
        number = PAIRED_METRICS[metric]
        found = []
        for before, after in self.requests:
            values = [number(row) for row in (*before, *after)]
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                found.append((known[: len(before)], known[len(before) :]))
        if not found:
            return None
        sides = zip(*found, strict=True)
        baseline, candidate = (tuple(zip(*side, strict=True)) for side in sides)
        return Values(baseline=baseline, candidate=candidate)


def match(baseline: Side, candidate: Side) -> Pairs | None:
    """Match the requests of two runs that sent the same prompts.

    None when that is not so, or when a trial kept no rows.

    Raises:
        ValueError: the rows of a trial are damaged.
    """
    if baseline.prompts != candidate.prompts:
        return None
    sent = [_sent(trial) for trial in (*baseline.trials, *candidate.trials)]
    if not all(sent):
        return None
    cut = len(baseline.trials)
    before, after = _answered(sent[:cut]), _answered(sent[cut:])
    both = [key for key in before.keys() & after.keys() if _same_prompt(before[key], after[key])]
    # Of more requests than there may be rows runs of other lengths keep other samples.
    sampled = {level for trial in sent for level in trial.levels}
    known = _in_all(sent) if len(sampled) > 1 else None
    only_one = before.keys() ^ after.keys()
    return Pairs(
        requests=tuple(
            (tuple(before[key]), tuple(after[key]))
            for key in sorted(both, key=lambda key: _when(key, before[key], after[key]))
        ),
        unmatched=len(only_one if known is None else only_one & known),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The requests of one trial, however they ended."""

    rows: Mapping[Key, Row]
    levels: frozenset[int]
    """How much was left out of each phase's rows."""

    def __bool__(self) -> bool:
        return bool(self.rows)


def _sent(trial: TrialSummary) -> _Sent:
    kept = [phase for phase in trial.phases if phase.rows]
    rows = {(phase.name, row.number): row for phase in kept for row in read_rows(phase.rows)}
    return _Sent(rows=rows, levels=frozenset(int(phase.rows["level"]) for phase in kept))


def _in_all(sent: Sequence[_Sent]) -> set[Key]:
    return set.intersection(*(set(trial.rows) for trial in sent))


def _answered(sent: Sequence[_Sent]) -> dict[Key, list[Row]]:
    """Rows of the requests that each trial of a run answered."""
    found = {}
    for key in _in_all(sent):
        rows = [trial.rows[key] for trial in sent]
        if all(row.outcome == "ok" for row in rows):
            found[key] = rows
    return found


def _same_prompt(before: Iterable[Row], after: Iterable[Row]) -> bool:
    return len({row.entry for row in (*before, *after)}) == 1


def _when(key: Key, before: Sequence[Row], after: Sequence[Row]) -> tuple[str, float, int]:
    """When a request was sent: in a closed loop each trial decides that for itself."""
    phase, number = key
    return phase, fmean(row.due for row in before) + fmean(row.due for row in after), number


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / _MICROSECONDS


def _from_due(row: Row) -> float | None:
    if row.lag is None or row.latency is None:
        return None
    return (row.lag + row.latency) / _MICROSECONDS


def _per_token(row: Row) -> float | None:
    """As `Record.time_per_output_token`; None where all text came at once."""
    first, latency, tokens = row.time_to_first_token, row.latency, row.output_tokens
    if first is None or latency is None or tokens is None or tokens <= 1 or latency == first:
        return None
    return (latency - first) / (tokens - 1) / _MICROSECONDS


PAIRED_METRICS: Final[Mapping[str, Callable[[Row], float | None]]] = {
    "time_to_first_token": lambda row: _seconds(row.time_to_first_token),
    "request_latency": lambda row: _seconds(row.latency),
    "request_latency_from_due": _from_due,
    "time_per_output_token": _per_token,
}
"""Metrics that a row tells of its request."""
