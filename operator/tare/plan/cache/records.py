"""What the records of a phase tell of its cache: who could hit, and who found too much.

Times are those of the workers, after their own gates; `skew` is by how much these may lie apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.plan.cache.classes import itself

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from collections.abc import Set as AbstractSet

    from tare.measure.rows import Row
    from tare.plan.cache.expected import Request, Servers
    from tare.plan.cache.prefixes import Prefixes

__all__ = ["Excess", "overlaps", "too_warm"]

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A request that found more than anything sent before it can explain."""

    number: int
    """Of the request in its phase."""
    entry: int
    found: int
    """Cached tokens."""
    explained: int
    """Cached tokens that it could find at most."""


def overlaps(
    rows: Sequence[tuple[Row, Request]], prefixes: Prefixes, servers: Servers, *, skew: int
) -> dict[Hashable, int]:
    """Return by level how many requests may have missed it since they were on their way together.

    On one replica these are the requests that were sent before the first one had its first token;
    on several, each of which has a first one, the most that waited for a first token at one time.
    """
    spans: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for row, request in rows:
        sent = _sent(row)
        if sent is None:
            continue
        wait = row.time_to_first_token if row.time_to_first_token is not None else row.latency
        ready = _NEVER if wait is None else sent + wait + skew
        for level in prefixes.path(*request):
            spans[level.key].append((sent, ready))
    count = _before_the_first if servers.replicas == 1 else _most_at_once
    return {key: count(found) for key, found in spans.items()}


def too_warm(
    rows: Sequence[tuple[Row, Request]],
    prefixes: Prefixes,
    servers: Servers,
    *,
    before: AbstractSet[Hashable],
    skew: int,
    same: Callable[[Hashable], Hashable] = itself,
) -> list[Excess]:
    """Return the requests that found more than they could, in the order of their sends.

    Args:
        rows: of one phase, with their prompts.
        prefixes: of the dataset.
        servers: the caches.
        before: levels that earlier phases may have left.
        skew: microseconds by which the clocks of workers may lie apart.
        same: key of the level that stands for one in `before`.
    """
    sent = sorted(
        ((_sent(row) or 0, row, request) for row, request in rows), key=lambda one: one[0]
    )
    seen: Counter[Hashable] = Counter()
    ahead = 0
    found = []
    for at, row, request in sent:
        while ahead < len(sent) and sent[ahead][0] <= at + skew:
            seen.update(level.key for level in prefixes.path(*sent[ahead][2]))
            ahead += 1
        path = prefixes.path(*request)
        explained = max(
            (
                servers.found(level.high)
                for level in path
                # The request itself is among the seen ones.
                if level.own or seen[level.key] > 1 or same(level.key) in before
            ),
            default=0,
        )
        if row.cached_tokens is not None and row.cached_tokens > explained:
            found.append(
                Excess(
                    number=row.number,
                    entry=row.entry,
                    found=row.cached_tokens,
                    explained=explained,
                )
            )
    return found


def _sent(row: Row) -> int | None:
    return None if row.lag is None else row.due + row.lag


def _before_the_first(spans: Sequence[tuple[int, int]]) -> int:
    first = min(ready for _, ready in spans)
    return sum(sent <= first for sent, _ in spans)


def _most_at_once(spans: Sequence[tuple[int, int]]) -> int:
    edges = sorted([(sent, 0) for sent, _ in spans] + [(ready, 1) for _, ready in spans])
    most = now = 0
    for _, ends in edges:
        now += -1 if ends else 1
        most = max(most, now)
    return most
