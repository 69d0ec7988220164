"""Holds what servers report as cached against the plan.

Too much is contamination whatever the plan's width: the run cannot have caused it. Being inside is
a pass only where the interval is narrow enough to mean something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tare.api.reasons import Reason
from tare.measure.cache import CacheVerdict, CacheWord, PhaseCache
from tare.measure.counts import Count
from tare.measure.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.measure.messages import PhaseResult
    from tare.plan.cache.plan import PhasePlan

__all__ = ["Reported", "judge_cache", "reported", "unverified"]

_NAMED: Final = 3
"""Requests that are named in a message."""
_Source = Literal["usage", "counters", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Cached prompt tokens as the servers told them."""

    source: _Source
    by_phase: tuple[int | None, ...]
    total: int | None


def reported(results: Sequence[PhaseResult], counted: int | None) -> Reported:
    """Choose who is believed: every answer's usage, else the servers' counters.

    A server that leaves the number out where it is 0 has told it of some answers only; its counters
    are better then, and without them a missing number stands for 0.

    Args:
        results: the phases.
        counted: what the counters of all servers rose by over all phases, if that is known.
    """
    cached = [Histogram.from_json(r.histograms.get("cached_tokens", {})) for r in results]
    told = sum(one.count for one in cached)
    answered = sum(result.counts.get(Count.OK, 0) for result in results)
    if told and (told >= answered or counted is None):
        sums = tuple(one.sum for one in cached)
        return Reported(source="usage", by_phase=sums, total=sum(sums))
    if counted is not None:
        return Reported(source="counters", by_phase=(None,) * len(results), total=counted)
    return Reported(source="", by_phase=(None,) * len(results), total=None)


def judge_cache(
    plans: Sequence[PhasePlan],
    results: Sequence[PhaseResult],
    found: Reported,
    *,
    is_reset: bool,
    assumptions: tuple[str, ...] = (),
) -> CacheVerdict:
    """Judge one trial whose servers did not restart.

    Args:
        plans: of its phases, made after the run.
        results: of the same phases.
        found: what the servers reported.
        is_reset: the caches were emptied somewhere; without that, too much is no surprise.
        assumptions: printed with the verdict.
    """
    phases = tuple(
        _phase(plan, result, cached)
        for plan, result, cached in zip(plans, results, found.by_phase, strict=True)
    )

    def verdict(word: CacheWord, reason: Reason, message: str) -> CacheVerdict:
        return CacheVerdict(
            verdict=word,
            reason=reason,
            message=message,
            source=found.source,
            phases=phases,
            assumptions=assumptions,
        )

    if found.total is None:
        text = "the servers report no cached tokens, neither in usage nor in counters"
        return verdict(CacheWord.UNVERIFIED, Reason.NOT_REPORTED, text)
    if text := _too_much(plans, phases, found.total):
        reason = Reason.CONTAMINATED if is_reset else Reason.WARM_CACHE
        return verdict(CacheWord.CONTAMINATED, reason, text)
    if text := _too_little(plans, phases, found.total):
        return verdict(CacheWord.UNVERIFIED, Reason.COLDER_THAN_PLANNED, text)
    doubted = next((p for p in plans if p.kind == "profiling" and not p.is_decidable), None)
    if doubted is not None:
        text = f"phase {doubted.name}: {doubted.why}; what would help: {doubted.remedy}"
        return verdict(CacheWord.UNVERIFIED, Reason.NOT_DECIDABLE, text)
    return verdict(CacheWord.AS_PLANNED, Reason.AS_PLANNED, _told(phases, found.total))


def unverified(reason: Reason, message: str) -> CacheVerdict:
    """Return the verdict on a trial of which nothing can be said."""
    return CacheVerdict(verdict=CacheWord.UNVERIFIED, reason=reason, message=message)


def _phase(plan: PhasePlan, result: PhaseResult, cached: int | None) -> PhaseCache:
    prompts = Histogram.from_json(result.histograms.get("prompt_tokens", {}))
    expected = plan.expected
    planned = expected.prompt_tokens if expected is not None else 0
    return PhaseCache(
        name=plan.name,
        prompt_tokens=prompts.sum if prompts.count else planned,
        low=expected.low if expected is not None else None,
        high=expected.high if expected is not None else None,
        found=cached,
        doubt=plan.why,
    )


def _too_much(plans: Sequence[PhasePlan], phases: Sequence[PhaseCache], total: int) -> str:
    """Say where more was found than the run can have caused; empty when nowhere."""
    for plan, phase in zip(plans, phases, strict=True):
        if not plan.known_start or phase.high is None:
            continue
        if phase.found is not None and (phase.found > phase.high or plan.excess):
            text = (
                f"{_numbers(phase)}: {phase.found - phase.high:,} more"
                if (phase.found > phase.high)
                else _numbers(phase)
            )
            return text + _first(plan)
    alone = [phase.found for phase in phases]
    highs = [phase.high for phase in phases]
    judged = all(plan.known_start for plan in plans) and None not in highs
    most = sum(high for high in highs if high is not None)
    if None in alone and judged and total > most:
        return f"all phases: {total:,} prompt tokens were cached, planned at most {most:,}"
    return ""


def _too_little(plans: Sequence[PhasePlan], phases: Sequence[PhaseCache], total: int) -> str:
    """Say where less was found than is certain; empty when nowhere."""
    for plan, phase in zip(plans, phases, strict=True):
        if plan.kind != "profiling" or phase.found is None or phase.low is None:
            continue
        if phase.found < phase.low:
            return (
                f"{_numbers(phase)}: the cache is off, smaller than it says, or shared out among "
                "servers that are not known"
            )
    least = sum(phase.low for phase in phases if phase.low is not None)
    if any(phase.found is None for phase in phases) and total < least:
        return f"all phases: {total:,} prompt tokens were cached, planned at least {least:,}"
    return ""


def _told(phases: Sequence[PhaseCache], total: int) -> str:
    known = [_numbers(phase) for phase in phases if phase.found is not None]
    if known:
        return "; ".join(known)
    low, high = (sum(getattr(p, side) or 0 for p in phases) for side in ("low", "high"))
    return f"all phases: {total:,} prompt tokens were cached, planned {_range(low, high)}"


def _numbers(phase: PhaseCache) -> str:
    return (
        f"phase {phase.name}: {phase.found:,} of {phase.prompt_tokens:,} prompt tokens were "
        f"cached, planned {_range(phase.low, phase.high)}"
    )


def _range(low: int | None, high: int | None) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _first(plan: PhasePlan) -> str:
    if not plan.excess:
        return ""
    named = ", ".join(
        f"request {one.number} (entry {one.entry}) found {one.found:,}, at most {one.explained:,} "
        "explained"
        for one in plan.excess[:_NAMED]
    )
    more = len(plan.excess) - _NAMED
    return f"; first {named}" + (f" and {more} more" if more > 0 else "")
