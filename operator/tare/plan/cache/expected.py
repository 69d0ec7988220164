"""How many prompt tokens a phase finds cached: at least, and at most.

A level of a prompt is found by every request but those that come before the server has it. At most:
the first request misses, all later ones hit, wherever they go. At least: as many miss as may be on
their way together, on each replica anew, since nothing says that equal prompts go to one replica.
What an earlier phase has sent is there, unless a reset came between or the pool was too small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tare.plan.cache.classes import Copies, Scope, itself, scope_of
from tare.plan.cache.prefixes import ROOT, Level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.plan.cache.prefixes import Mark, Prefixes

__all__ = ["WIDEST", "CacheState", "Expected", "PartFound", "Request", "Servers"]

WIDEST: Final = 0.05
"""Share of the prompt tokens beyond which an interval says nothing."""


class Request(NamedTuple):
    """One request of a phase."""

    entry: int
    turn: int = 0
    mark: Mark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What is known of the caches."""

    block: int
    """Tokens in a block."""
    replicas: int = 1
    """Caches that a request may meet; requests go to any of them."""
    blocks: int | None = None
    """Blocks of the smallest pool; None when no server tells."""

    def found(self, tokens: int) -> int:
        """Return the tokens of the whole blocks in a prefix."""
        return tokens // self.block * self.block


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFound:
    """The blocks of one part of all prompts of a phase, in tokens."""

    part: str
    tokens: int
    warm: int
    """Cached by an earlier phase, or by an earlier turn of the session."""
    shared: int
    """Cached by an earlier request of the phase itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Cached prompt tokens of one phase."""

    low: int
    high: int
    prompt_tokens: int
    """Of all its requests."""
    most: int
    """Cached tokens if every prompt were known already."""
    requests: int = 0
    parts: tuple[PartFound, ...] = ()
    """What is found of each part of the prompts, at most."""
    evicts: bool = False
    """The pool may be too small for what is sent."""

    @property
    def width(self) -> float:
        """Width of the interval as a share of the prompt tokens."""
        return (self.high - self.low) / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def is_decidable(self) -> bool:
        """Whether being inside of it means anything."""
        return self.width <= WIDEST

    @property
    def finds_nothing(self) -> bool:
        """Whether nearly every token is cached by plan, so that nothing more could be found."""
        return self.prompt_tokens > 0 and self.most - self.low <= WIDEST * self.prompt_tokens


@dataclass(slots=True)
class _Sum:
    """One level over all requests of a phase that know it."""

    lookups: int
    low: int
    """Tokens in it beyond the level before, at least."""
    high: int
    level: Level
    later: int = 0
    """Lookups by later turns: the session itself has sent it before."""
    alike: int = 1
    """Levels like it, itself among them, that as many other requests know."""


@dataclass(slots=True)
class CacheState:
    """What the caches hold, phase after phase."""

    servers: Servers
    same: Callable[[Hashable], Hashable] = itself
    """Key of the level that stands for one, where not every session stands for itself."""
    sure: set[Hashable] = field(default_factory=set)
    """Levels that some replica has."""
    possible: set[Hashable] = field(default_factory=lambda: {ROOT})
    """Levels that a replica may have; of the template, the probe and the canaries leave some."""
    footprint: int = 0
    """Blocks written since the caches were empty, at most."""
    lost: int = 0
    """Tokens of prompts that earlier phases may have failed to leave."""

    def reset(self) -> None:
        """Empty all caches."""
        self.sure.clear()
        self.possible = {ROOT}
        self.footprint = self.lost = 0

    def phase(
        self,
        prefixes: Prefixes,
        requests: Iterable[Request] | Mapping[Request, Copies],
        *,
        together: int | None,
        overlap: Mapping[Hashable, int] | None = None,
        certain: bool = True,
        failed: int = 0,
    ) -> Expected:
        """Add up a phase, and remember what it leaves.

        Args:
            prefixes: of the dataset.
            requests: of the phase, in any order; or some, with those that each stands for.
            together: in flight at a time; None when nothing bounds them.
            overlap: the same for single levels, as the records of the requests tell it.
            certain: the requests are really these, not only about so many.
            failed: how many of them were not answered well.
        """
        sums: dict[Hashable, _Sum] = {}
        prompt = most = count = longest = 0
        if not isinstance(requests, Mapping):
            requests = {one: Copies(times) for one, times in Counter(requests).items()}
        for request, copies in requests.items():
            path = prefixes.path(*request)
            self._add(sums, path, copies)
            size = prefixes.prompt(*request)
            prompt += copies.total * (size.low + size.high)
            most += copies.total * self.servers.found(path[-1].high)
            longest = max(longest, size.high)
            count += copies.total
            self.footprint += copies.total * self._answer_blocks(prefixes, request)
        low, high = self._totals(sums, together, overlap)
        parts = self._parts(sums)
        self._keep(sums, certain=certain)
        pool = self.servers.blocks
        evicts = pool is not None and self.footprint > pool
        self.lost += failed * longest
        return Expected(
            low=0 if evicts else max(low - self.lost, 0),
            high=high,
            prompt_tokens=prompt // 2,
            most=most,
            requests=count,
            parts=parts,
            evicts=evicts,
        )

    def _add(self, sums: dict[Hashable, _Sum], path: list[Level], copies: Copies) -> None:
        found = self.servers.found
        single = copies.entries == copies.passes == 1
        later = any(level.own for level in path)
        low = high = 0
        for level in path:
            known = sums.get(level.key)
            alike = 1 if single else _alike(level, copies)
            times = copies.total // alike
            if known is not None:
                known.lookups += times
            else:
                sums[level.key] = _Sum(
                    times,
                    max(found(level.low) - low, 0),
                    max(found(level.high) - high, 0),
                    level,
                    alike=alike,
                )
            later = later and level is not path[-1]
            sums[level.key].later += times if later else 0
            low, high = max(low, found(level.low)), max(high, found(level.high))

    def _keep(self, sums: Mapping[Hashable, _Sum], *, certain: bool) -> None:
        """Remember the levels of a phase, and the blocks that it has written."""
        new = (one for key, one in sums.items() if self.same(key) not in self.possible)
        self.footprint += sum(one.alike * -(-one.high // self.servers.block) for one in new)
        self.possible.update(map(self.same, sums))
        if certain:
            self.sure.update(map(self.same, sums))

    def _totals(
        self,
        sums: Mapping[Hashable, _Sum],
        together: int | None,
        overlap: Mapping[Hashable, int] | None,
    ) -> tuple[int, int]:
        low = high = 0
        for key, one in sums.items():
            bound = one.lookups if together is None else together
            if overlap is not None:
                bound = min(bound, overlap.get(key, bound))
            low += one.alike * one.low * (one.lookups - self._misses(key, one, bound))
            free = one.level.own or self.same(key) in self.possible
            high += one.alike * one.high * (one.lookups if free else one.lookups - 1)
        return low, high

    def _parts(self, sums: Mapping[Hashable, _Sum]) -> tuple[PartFound, ...]:
        """Add the levels up by the part of the prompt that ends there."""
        found: dict[str, list[int]] = {}
        for key, one in sums.items():
            tokens, warm, shared = found.setdefault(one.level.part, [0, 0, 0])
            size = one.alike * one.high * one.lookups
            is_warm = one.level.own or self.same(key) in self.possible
            warm += size if is_warm else 0
            shared += 0 if is_warm else size - one.alike * one.high
            found[one.level.part] = [tokens + size, warm, shared]
        return tuple(
            PartFound(part=part, tokens=tokens, warm=warm, shared=shared)
            for part, (tokens, warm, shared) in found.items()
            if tokens
        )

    def _misses(self, key: Hashable, one: _Sum, bound: int) -> int:
        """Return how many requests may miss a level."""
        replicas = self.servers.replicas
        if one.level.unsure:
            return one.lookups
        # The replica of a session's first turn has all that its later ones begin with.
        may = one.lookups - one.later if replicas == 1 else one.lookups
        if one.level.own:
            return may
        return min(may, (replicas - 1 if self.same(key) in self.sure else replicas) * bound)

    def _answer_blocks(self, prefixes: Prefixes, request: Request) -> int:
        shape = prefixes.shape(request.entry)
        answer = shape.turns[request.turn][1] if shape is not None else 0
        return -(-answer // self.servers.block) + 1


def _alike(level: Level, copies: Copies) -> int:
    """Return for how many levels one stands, of requests that stand for so many."""
    scope = scope_of(level.key)
    entries = copies.entries if scope >= Scope.ENTRY else 1
    return entries * (copies.passes if scope is Scope.SESSION else 1)
