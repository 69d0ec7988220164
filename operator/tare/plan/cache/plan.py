"""The cache plan of one trial: phase by phase, with the assumptions that it rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tare.measure.counts import Count
from tare.measure.histogram import Histogram
from tare.plan.cache.expected import WIDEST, CacheState, Expected, Servers
from tare.plan.cache.prefixes import Prefixes
from tare.plan.cache.records import Excess, overlaps, too_warm
from tare.plan.cache.requests import Load, Sent, Workload
from tare.plan.stretches import begins_profiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tare.measure.messages import PhaseResult
    from tare.plan.cache.outline import Outline
    from tare.plan.order import PhaseOrder

__all__ = ["CacheSettings", "PhasePlan", "assumptions", "merged", "plan_after", "plan_before"]

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Everything besides dataset and phases that a plan depends on."""

    servers: Servers
    at_start: bool = False
    """The caches are emptied before the first phase."""
    before_profiling: bool = False
    """They are emptied where profiling begins."""
    senders: int = 1
    """Processes that share the load."""
    answers_repeat: bool = False
    """Equal prompts are answered with equal texts."""
    block_known: bool = True
    """The servers said how long a block is."""

    @property
    def is_reset(self) -> bool:
        """Whether anything empties the caches."""
        return self.at_start or self.before_profiling


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """What one phase finds."""

    name: str
    kind: str
    expected: Expected | None
    """None when nothing can be said."""
    open_ended: bool = False
    """Nothing bounds the requests in flight: decided by the records after the run."""
    known_start: bool = True
    """What the caches held before it is known, by a reset or by an earlier phase."""
    why: str = ""
    """Why it is not decidable; empty when it is."""
    remedy: str = ""
    """What would make it so."""
    excess: tuple[Excess, ...] = ()
    """Requests that found too much, by their records."""

    @property
    def is_decidable(self) -> bool:
        """Whether being inside the interval means anything."""
        return not self.why


def plan_before(
    outline: Outline, phases: Sequence[PhaseOrder], settings: CacheSettings
) -> tuple[PhasePlan, ...]:
    """Plan a trial that has not begun."""
    prefixes = Prefixes(outline, answers_repeat=settings.answers_repeat)
    load = Workload(outline, prefixes, senders=settings.senders).planned(phases)
    return _plan(prefixes, phases, load, settings, results=None, skew={})


def plan_after(
    outline: Outline,
    phases: Sequence[PhaseOrder],
    *settings: CacheSettings,
    results: Sequence[PhaseResult],
    skew: Mapping[str, float],
) -> tuple[PhasePlan, ...]:
    """Plan a trial that is over, by the requests that it really sent.

    Args:
        outline: of the dataset.
        phases: in their order.
        settings: of the cell; several, when the servers may be like any of them and are all that
            differs. The plan covers each then.
        results: of the phases, with the rows of their requests where they were kept.
        skew: phase to seconds by which the starts of its workers lay apart.
    """
    alike = settings[0]
    phases = phases[: len(results)]
    results = results[: len(phases)]
    outline = _with_template(outline, phases, results, senders=alike.senders)
    prefixes = Prefixes(outline, answers_repeat=alike.answers_repeat)
    load = Workload(outline, prefixes, senders=alike.senders).measured(phases, results)
    return merged(
        [_plan(prefixes, phases, load, one, results=results, skew=skew) for one in settings]
    )


def _with_template(
    outline: Outline,
    phases: Sequence[PhaseOrder],
    results: Sequence[PhaseResult],
    *,
    senders: int,
) -> Outline:
    """Take the size of the template from the prompts' real lengths, where no server told it."""
    if outline.frame is not None or not outline.exact:
        return outline
    texts = Prefixes(outline.with_total(0), answers_repeat=False)
    load = Workload(outline, texts, senders=senders).measured(phases, results)
    for phase, result, sent in zip(phases, results, load.phases, strict=True):
        counted = Histogram.from_json(result.histograms.get("prompt_tokens", {}))
        total = sum(copies.total for copies in sent.requests.values())
        if phase.type == "sessions" or not counted.count or counted.count != total:
            continue
        text = sum(texts.prompt(*one).low * copies.total for one, copies in sent.requests.items())
        each, rest = divmod(counted.sum - text, counted.count)
        return outline.with_total(each) if each >= 0 and not rest else outline
    return outline


def _plan(
    prefixes: Prefixes,
    phases: Sequence[PhaseOrder],
    load: Load,
    settings: CacheSettings,
    *,
    results: Sequence[PhaseResult] | None,
    skew: Mapping[str, float],
) -> tuple[PhasePlan, ...]:
    state = CacheState(settings.servers, same=load.same)
    known = settings.at_start or not settings.before_profiling
    kinds = [phase.kind for phase in phases]
    blind = blur = ""
    plans = []
    for number, phase in enumerate(phases):
        if settings.before_profiling and begins_profiling(kinds, number):
            state.reset()
            known, blind, blur = True, "", ""
        requests = load.phases[number]
        blind = blind or requests.unknown
        if blind:
            why = f"phase {phase.name}: {blind}" if requests.unknown else blind
            blind = blind if blind.startswith("phase ") else f"phase {phase.name}: {blind}"
            plans.append(_blind(phase, why, known=known))
            continue
        failed = _failed(results[number]) if results is not None else 0
        before = frozenset(state.possible) if requests.rows else frozenset()
        micro = round(skew.get(phase.name, 0.0) * _MICROSECONDS)
        expected = state.phase(
            prefixes,
            requests.requests,
            together=phase.concurrency if phase.rate is None else phase.max_concurrency,
            overlap=overlaps(requests.rows, prefixes, settings.servers, skew=micro)
            if requests.rows
            else None,
            # What a seamless phase left in flight may come after the next one's first requests.
            certain=requests.certain and not phase.seamless,
            failed=failed,
        )
        if failed:
            blur = f"{failed} requests of phase {phase.name} failed, and may have left nothing"
        plan = _described(phase, expected, requests, settings, known=known, blur=blur)
        if not requests.certain:
            blur = f"which prompts the workers of phase {phase.name} have sent is not known"
        excess = too_warm(
            requests.rows, prefixes, settings.servers, before=before, skew=micro, same=load.same
        )
        plans.append(replace(plan, excess=tuple(excess)))
    return tuple(plans)


def _described(
    phase: PhaseOrder,
    expected: Expected,
    sent: Sent,
    settings: CacheSettings,
    *,
    known: bool,
    blur: str,
) -> PhasePlan:
    """Say whether an interval means anything, and else why not and what would help.

    `blur` is what is not known of the requests themselves.
    """
    open_ended = phase.rate is not None and phase.max_concurrency is None and not sent.rows
    plan = PhasePlan(
        name=phase.name,
        kind=phase.kind,
        expected=expected,
        open_ended=open_ended,
        known_start=known,
    )
    if not known:
        why = "what the caches held before it is not known"
        return replace(plan, why=why, remedy="reset at CellStart or Both")
    if expected.is_decidable:
        return plan
    why, remedy = _doubt(expected, settings, open_ended=open_ended, blur=blur)
    width = f"{expected.width:.0%} of the prompt tokens wide, {WIDEST:.0%} are allowed"
    return replace(plan, why=f"{width}: {why}", remedy=remedy)


def _doubt(
    expected: Expected, settings: CacheSettings, *, open_ended: bool, blur: str
) -> tuple[str, str]:
    """Return the main reason for a wide interval and what would narrow it."""
    if expected.evicts:
        why = "the pool may be too small for all that is sent"
        return why, "fewer or shorter entries, or a larger pool"
    if blur:
        return blur, "phases that end by requests, and requests that succeed"
    if settings.servers.replicas > 1:
        why = f"requests go to any of {settings.servers.replicas} replicas, each with its own cache"
        return why, "one replica, a reset before profiling, or a warmup_isolation target"
    if open_ended:
        why = "nothing bounds the requests that are on their way together"
        return why, "the records after the run decide it; before it, maxConcurrency would"
    if not settings.block_known:
        return "the servers do not say how long a block is", "a server that reports it"
    why = "it is not known how many requests meet a prefix first, or how answers tokenise"
    return why, "temperature 0 in extraBody, shorter answers, more requests or less concurrency"


def _blind(phase: PhaseOrder, why: str, *, known: bool) -> PhasePlan:
    return PhasePlan(
        name=phase.name,
        kind=phase.kind,
        expected=None,
        known_start=known,
        why=why,
        remedy="give phases requests or sessions instead of durationSeconds, and fewer of them",
    )


def _failed(result: PhaseResult) -> int:
    return result.counts.get(Count.ISSUED, 0) - result.counts.get(Count.OK, 0)


def merged(plans: Sequence[tuple[PhasePlan, ...]]) -> tuple[PhasePlan, ...]:
    """Return one plan that covers several, which differ in what is not known of the servers."""
    return tuple(_covering(phases) for phases in zip(*plans, strict=True))


def _covering(phases: Sequence[PhasePlan]) -> PhasePlan:
    first = phases[0]
    expected = [phase.expected for phase in phases if phase.expected is not None]
    if len(phases) == 1 or not expected or first.expected is None:
        return first
    whole = replace(
        first.expected,
        low=min(one.low for one in expected),
        high=max(one.high for one in expected),
        most=max(one.most for one in expected),
    )
    doubted = next((phase for phase in phases if not phase.is_decidable), first)
    least = min(phases, key=lambda phase: len(phase.excess))
    plan = replace(doubted, expected=whole, excess=least.excess)
    if plan.is_decidable and not whole.is_decidable:
        why = f"{whole.width:.0%} of the prompt tokens wide: no server says how long a block is"
        return replace(plan, why=why, remedy="a server that reports it")
    return plan


def assumptions(outline: Outline, settings: CacheSettings) -> tuple[str, ...]:
    """Return what the plan takes for granted, one sentence each."""
    return tuple(_assumptions(outline, settings))


def _assumptions(outline: Outline, settings: CacheSettings) -> Iterable[str]:
    servers = settings.servers
    yield "Every phase starts at entry 0 of the dataset and takes the entries in order."
    said = "as the servers say" if settings.block_known else "assumed"
    yield f"Prompts share whole blocks of {servers.block} tokens ({said}); the last is computed."
    if not outline.exact:
        yield "Token lengths are approximate: nobody has counted the dataset's words exactly."
    if outline.frame is None:
        yield "What the chat template adds is not known."
    if servers.replicas > 1:
        yield f"{servers.replicas} replicas have caches of their own; no affinity is relied on."
    if servers.blocks is None:
        yield "Nothing is evicted: the servers do not tell the size of their pools."
    if not settings.is_reset:
        yield "There is no reset: what is cached beforehand counts as contamination."
    elif not settings.at_start:
        yield "The reset comes before profiling: what warm-up finds is not judged."
    if settings.answers_repeat:
        yield "Equal prompts get equal answers, since temperature is 0."
