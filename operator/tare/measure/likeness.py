"""Whether what two runs measured may be compared at all.

A server that fails, or answers shorter, looks faster; so does one with a warm cache, and a client
that is too slow hides whatever there is. Each sentence names both values, the baseline's first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.api.reasons import Reason
from tare.measure.counts import Count
from tare.measure.side import Measure, Side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.measure.paired import Pairs

__all__ = ["MOST_APART", "doubts", "unlikeness"]

MOST_APART: Final = 0.01
"""Of success rates, as a difference; of output lengths and completed requests, as a share."""

_DIGITS: Final = 9
"""0.97 - 0.96 is more than 0.01 to a computer."""
_OUTPUT: Final = Measure(metric="output_tokens", statistic="mean")


def unlikeness(baseline: Side, candidate: Side) -> tuple[str, ...]:
    """Say why two cells cannot be compared; empty when they can."""
    return (
        *_success(baseline, candidate),
        *_length(baseline, candidate),
        *_cache(baseline, candidate),
        *_client("baseline", baseline),
        *_client("candidate", candidate),
    )


def doubts(baseline: Side, candidate: Side, pairs: Pairs | None) -> tuple[str, ...]:
    """Say what a reader of the comparison must know."""
    found = [*_survivors(baseline, candidate, pairs), *_prompts(baseline, candidate)]
    if baseline.cache is not None and baseline.cache is not Reason.AS_PLANNED:
        found.append(
            f"The cache is {baseline.cache} in both runs: a difference may come from what each "
            "found there."
        )
    return tuple(found)


def _success(baseline: Side, candidate: Side) -> Iterator[str]:
    before, after = baseline.success_rate, candidate.success_rate
    if before is None or after is None:
        yield f"No request was sent by the {'baseline' if before is None else 'candidate'}."
    elif round(abs(after - before), _DIGITS) > MOST_APART:
        yield (
            f"Success rates differ by more than {MOST_APART:.0%}: {before:.2%} of the requests of "
            f"the baseline were answered well, {after:.2%} of the candidate's."
        )


def _length(baseline: Side, candidate: Side) -> Iterator[str]:
    before, after = (_mean(side.values(_OUTPUT)) for side in (baseline, candidate))
    if before is None and after is None:
        return
    if before is None or after is None or abs(after - before) > MOST_APART * before:
        texts = ("unknown" if value is None else f"{value:.1f}" for value in (before, after))
        yield (
            f"Answers differ in length by more than {MOST_APART:.0%}: "
            "{} output tokens on average in the baseline, {} in the candidate; set "
            "endpoint.extraBody.ignore_eos where the server knows it.".format(*texts)
        )


def _cache(baseline: Side, candidate: Side) -> Iterator[str]:
    before, after = (side.cache or "not known" for side in (baseline, candidate))
    if before != after:
        yield f"The caches differ: {before} in the baseline, {after} in the candidate."


def _client(name: str, side: Side) -> Iterator[str]:
    """Quote the first trial whose client was not up to the load."""
    for trial in side.trials:
        for concern in trial.concerns:
            if concern.reason is Reason.CLIENT_SATURATED:
                yield f"The client of the {name} was saturated: {concern.message}"
                return


def _survivors(baseline: Side, candidate: Side, pairs: Pairs | None) -> Iterator[str]:
    if pairs is not None:
        if pairs.unmatched_share > MOST_APART:
            total = len(pairs.requests) + pairs.unmatched
            yield (
                f"Survivor bias: {pairs.unmatched} of {total} requests were completed by one of "
                f"the runs only ({pairs.unmatched_share:.1%}). Means by request leave them out; "
                "percentiles and rates do not."
            )
        return
    before, after = (side.count(Count.OK) / len(side.trials) for side in (baseline, candidate))
    if abs(after - before) > MOST_APART * max(before, after):
        yield (
            f"Survivor bias: the baseline completed {before:.0f} requests a trial, the candidate "
            f"{after:.0f}: they are not the same ones."
        )


def _prompts(baseline: Side, candidate: Side) -> Iterator[str]:
    """Say why the same spec made other prompts: lengths are counted by another tokenizer."""
    before, after = baseline.prompts, candidate.prompts
    names = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    if names:
        name = names[0]
        yield (
            "The prompts are not the same, so requests are not paired: "
            f"{name} is {before.get(name)} in the baseline and {after.get(name)} in the candidate."
        )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
