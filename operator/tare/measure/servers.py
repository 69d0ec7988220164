"""What the servers themselves counted between the first gate of a trial and its last drain.

Counters of a server are cumulative over its life and fall to zero when it restarts, so only a
difference means anything, and none when a counter went down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = [
    "ServerCount",
    "ServerCounts",
    "ServerFact",
    "cached_by_counters",
    "requests_by_replica",
    "shifted",
]


class ServerCount(StrEnum):
    """Counters that are read where a server has them; one name for all kinds of servers."""

    REQUESTS = "requests"
    """Requests that ended well."""
    PROMPT_TOKENS = "prompt_tokens"
    OUTPUT_TOKENS = "output_tokens"
    CACHE_QUERIES = "prefix_cache_queries"
    """Prompt tokens looked up in the prefix cache."""
    CACHE_HITS = "prefix_cache_hits"
    """Prompt tokens found there."""
    EXTERNAL_HITS = "external_prefix_cache_hits"
    """Prompt tokens that came from a cache behind the server's KV connector."""


class ServerFact(StrEnum):
    """What a server tells of itself beside its counters."""

    STARTED = "started_at"
    """Epoch seconds at which its process began: another one after the trial is another process."""
    RESTARTS = "restarts"
    """How often the containers of its pod were started again, as the pod's status says."""
    BLOCK_SIZE = "kv_block_size"
    """Tokens in a block of its KV cache."""
    BLOCKS = "kv_blocks"
    """Blocks in the pool of each of its engines."""
    ENGINES = "engines"
    """Engines behind its address (data-parallel ranks), each with a cache of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """Counters of one replica at the two ends of a trial, and what it tells of itself."""

    replica: str
    """`Replica.name`."""
    before: Mapping[str, float]
    """Empty where it told nothing, or nobody asked it."""
    after: Mapping[str, float] = field(default_factory=dict)

    def delta(self, name: ServerCount) -> float | None:
        """What was counted in between; None when it is not known or the server restarted."""
        if name not in self.before or name not in self.after:
            return None
        difference = self.after[name] - self.before[name]
        return difference if difference >= 0 else None

    def fact(self, name: ServerFact) -> int | None:
        """What the server tells of itself after the trial; None when it does not."""
        value = self.after.get(name)
        return None if value is None else round(value)

    @property
    def restarted(self) -> bool:
        """Whether the process at the end is another one than at the beginning."""
        both = self.before.keys() & self.after.keys()
        if any(self.before[name] != self.after[name] for name in _LIFE if name in both):
            return True
        return any(self.after[name] < self.before[name] for name in ServerCount if name in both)

    @property
    def unwatched(self) -> bool:
        """Whether it told something at one end alone, so that a restart would go unnoticed.

        One that tells nothing at either end gives no reason for doubt: it never does.
        """
        return bool(self.before) != bool(self.after)


_FACTS: Final = frozenset(ServerFact)
_LIFE: Final = (ServerFact.STARTED, ServerFact.RESTARTS)
"""What stays the same for as long as a server lives."""


def shifted(
    before: Mapping[str, Mapping[str, float]],
    begin: Mapping[str, Mapping[str, float]],
    end: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Move the counters of each replica forward by what was counted from `begin` to `end`.

    So that a stretch of the trial leaves no trace in the difference to its last counters. A counter
    that is not known at all three times is left out; what a server is, stays.
    """
    found: dict[str, dict[str, float]] = {}
    for replica, counts in before.items():
        here, there = begin.get(replica, {}), end.get(replica, {})
        moved = {n: v + there[n] - here[n] for n, v in counts.items() if n in here and n in there}
        found[replica] = moved | {n: v for n, v in counts.items() if n in _FACTS}
    return found


def cached_by_counters(servers: Sequence[ServerCounts], replicas: int) -> int | None:
    """Return the prompt tokens that all replicas found in their caches.

    None when one of them does not tell: a sum over a part of them would look like less.
    """
    found = [counts.delta(ServerCount.CACHE_HITS) for counts in servers]
    known = [hits for hits in found if hits is not None]
    return round(sum(known)) if found and len(known) == len(found) == replicas else None


def requests_by_replica(servers: Iterable[ServerCounts]) -> dict[str, int]:
    """Return how many requests each replica answered well; empty when one of them does not tell.

    Shares of a part of the replicas would be wrong for all of them.
    """
    counted = {counts.replica: counts.delta(ServerCount.REQUESTS) for counts in servers}
    known = {name: round(count) for name, count in counted.items() if count is not None}
    return known if len(known) == len(counted) else {}
