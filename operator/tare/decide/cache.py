"""Whether a trial found the cache that its plan says; pure, from what was stored and reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tare.api.reasons import Reason
from tare.measure.cache import CacheVerdict, CacheWord
from tare.measure.messages import PhaseResult
from tare.measure.rows import read_rows
from tare.measure.servers import ServerCounts, ServerFact, cached_by_counters
from tare.plan.cache.expected import Servers
from tare.plan.cache.outline import Outline
from tare.plan.cache.plan import CacheSettings, assumptions, plan_after
from tare.plan.cache.verdict import judge_cache, reported, unverified

if TYPE_CHECKING:
    from tare.api.spec import BenchmarkRunSpec
    from tare.plan.order import PhaseOrder

__all__ = ["Evidence", "block_sizes", "cache_settings", "judge_trial"]

_BLOCK_SIZES: Final = {"vllm": (16, 32, 64), "sglang": (1, 16, 32, 64)}
"""What a server may use that does not say, the default first:
https://docs.vllm.ai/en/stable/configuration/engine_args/ and
https://docs.sglang.io/advanced_features/server_arguments.html (page_size)."""
_UNKNOWN_SKEW: Final = 1e9
"""Seconds: any request of a phase may have come before any other."""
_ANY_SIZE: Final = (16, 1, 32, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one trial after it."""

    results: Sequence[PhaseResult]
    """Its phases, merged over the workers, with their rows."""
    dataset: Mapping[str, Any]
    """As the first worker described it."""
    servers: Sequence[ServerCounts] | None
    """What the replicas told at both ends; None when nobody wrote it down before the first gate."""
    replicas: int
    """Servers that the load went to."""
    skew: Mapping[str, float]
    """Phase to seconds between the starts of its workers; without those of which nobody knows."""

    @property
    def told(self) -> Sequence[ServerCounts]:
        """What is known of the replicas."""
        return self.servers or ()


def judge_trial(
    spec: BenchmarkRunSpec, phases: Sequence[PhaseOrder], evidence: Evidence
) -> CacheVerdict:
    """Plan a trial that is over by what it sent, and hold against it what the servers report."""
    restarted = sorted(server.replica for server in evidence.told if server.restarted)
    if restarted:
        names = ", ".join(restarted)
        text = f"{names} restarted during the trial: its cache was lost, and its counters too"
        return unverified(Reason.SERVER_RESTARTED, text)
    return _unless_unwatched(_judge(spec, phases, evidence), evidence)


def _judge(
    spec: BenchmarkRunSpec, phases: Sequence[PhaseOrder], evidence: Evidence
) -> CacheVerdict:
    """Judge a trial as if its servers had lived through it."""
    counted = cached_by_counters(evidence.told, evidence.replicas)
    found = reported(evidence.results, counted)
    outline = Outline.from_json(evidence.dataset.get("outline"))
    if outline is None:
        return unverified(Reason.NOT_DECIDABLE, "no worker described the dataset")
    settings = [
        cache_settings(
            spec,
            Servers(
                block=size, replicas=_caches(evidence), blocks=_least(evidence, ServerFact.BLOCKS)
            ),
            block_known=_least(evidence, ServerFact.BLOCK_SIZE) is not None,
        )
        for size in _sizes(spec, evidence)
    ]
    skew = {phase.name: _UNKNOWN_SKEW for phase in phases if settings[0].senders > 1}
    skew |= evidence.skew
    plans = plan_after(outline, phases, *settings, results=evidence.results, skew=skew)
    return judge_cache(
        plans,
        evidence.results,
        found,
        is_reset=settings[0].is_reset,
        assumptions=(*assumptions(outline, settings[0]), *_unknown(skew)),
    )


def _unless_unwatched(verdict: CacheVerdict, evidence: Evidence) -> CacheVerdict:
    """Take back a pass where a restart would have gone unnoticed.

    A restart only empties caches: what was found too much was too much with one as well.
    """
    unwatched = [server.replica for server in evidence.told if server.unwatched]
    if evidence.servers is None:
        unwatched = ["the servers"]
    if verdict.verdict is not CacheWord.AS_PLANNED or not unwatched:
        return verdict
    names = ", ".join(sorted(unwatched))
    text = (
        f"whether {names} restarted during the trial is not known: what they tell of themselves "
        "was read only before it, or only after it"
    )
    return replace(verdict, verdict=CacheWord.UNVERIFIED, reason=Reason.NOT_DECIDABLE, message=text)


def _unknown(skew: Mapping[str, float]) -> Iterable[str]:
    """Say of which phases nobody knows when their workers started."""
    for name, seconds in skew.items():
        if seconds >= _UNKNOWN_SKEW:
            yield (
                f"The operator restarted at the start of phase {name}: in which order its workers "
                "sent their requests is not known."
            )


def cache_settings(spec: BenchmarkRunSpec, servers: Servers, *, block_known: bool) -> CacheSettings:
    """Return what a cell's plan depends on besides its dataset and phases."""
    reset, workers = spec.endpoint.reset, spec.workers
    return CacheSettings(
        servers=servers,
        at_start=reset is not None and reset.at_start,
        before_profiling=reset is not None and reset.before_profiling,
        senders=workers.replicas * workers.processes,
        answers_repeat=spec.endpoint.extra_body.get("temperature") == 0,
        block_known=block_known,
    )


def block_sizes(server: str) -> tuple[int, ...]:
    """Return the tokens that a block of such a server may have, the most likely first."""
    return _BLOCK_SIZES.get(server, _ANY_SIZE)


def _sizes(spec: BenchmarkRunSpec, evidence: Evidence) -> tuple[int, ...]:
    """Return the tokens that a block may have: as said, else what all answers are multiples of."""
    said = _least(evidence, ServerFact.BLOCK_SIZE)
    if said:
        return (said,)
    usual = block_sizes(spec.endpoint.server)
    rows = (row for result in evidence.results for row in read_rows(result.rows))
    found = {row.cached_tokens for row in rows if row.cached_tokens}
    fitting = tuple(size for size in usual if all(tokens % size == 0 for tokens in found))
    return fitting or usual


def _least(evidence: Evidence, fact: ServerFact) -> int | None:
    """Return the smallest value that a server tells."""
    told = [server.fact(fact) for server in evidence.told]
    return min((value for value in told if value is not None), default=None)


def _caches(evidence: Evidence) -> int:
    """Return how many caches a request may meet: each engine of a server has its own."""
    more = sum((server.fact(ServerFact.ENGINES) or 1) - 1 for server in evidence.told)
    return max(evidence.replicas + more, 1)
