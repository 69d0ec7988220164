"""What happened on a cluster and when: watch events and the servers' own stamps on one clock."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from support.clusters import Api, collection
from tare.kube.port import CONFIG_MAP, JOB, POD, RUN, Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from support.proxied import Clock, ProxiedServers

__all__ = ["Sighting", "Timeline", "arrivals", "shares", "timeline"]

_KINDS = (RUN, JOB, POD, CONFIG_MAP)
_GRACE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A watch event."""

    at: float
    """Seconds of `time.monotonic`."""
    kind: Kind
    type: str
    object: dict[str, Any]


@dataclass(slots=True)
class Timeline:
    """Watch events of one namespace, in the order in which they came."""

    seen: list[Sighting] = field(default_factory=list)

    def first(
        self, kind: Kind, holds: Callable[[dict[str, Any]], object], *, after: float
    ) -> float:
        """When something first held of an object.

        Raises:
            LookupError: it never did.
        """
        for sighting in self.seen:
            if sighting.kind == kind and sighting.at >= after and holds(sighting.object):
                return sighting.at
        raise LookupError(f"no such event of {kind.plural}")

    async def until(self, kind: Kind, holds: Callable[[dict[str, Any]], object]) -> float:
        """Wait until something holds of an object that is seen from now on."""
        began = time.monotonic()
        while time.monotonic() - began < _GRACE:
            try:
                return self.first(kind, holds, after=began)
            except LookupError:
                await asyncio.sleep(0.02)
        raise LookupError(f"no such event of {kind.plural} within {_GRACE:g} s")


@asynccontextmanager
async def timeline(api: Api, namespace: str) -> AsyncIterator[Timeline]:
    """Watch runs and what is made for them until the block ends."""
    line = Timeline()

    async def watch(kind: Kind) -> None:
        path = collection(kind.group, kind.plural, namespace, kind.version)
        async for event in api.watch(path):
            line.seen.append(
                Sighting(at=time.monotonic(), kind=kind, type=event["type"], object=event["object"])
            )

    watches = [asyncio.create_task(watch(kind)) for kind in _KINDS]
    try:
        yield line
    finally:
        for task in watches:
            task.cancel()


async def arrivals(servers: ProxiedServers, clocks: dict[str, Clock]) -> list[tuple[float, int]]:
    """When each request reached a server, and how many tokens it asked for, oldest first."""
    return sorted(
        (clocks[pod].here(request["arrived_ns"]), request["max_tokens"])
        for pod, requests in (await servers.requests()).items()
        for request in requests
    )


def shares(tries: Sequence[Sequence[tuple[str, float]]]) -> Iterable[str]:
    """Lay out the steps of several tries: median of each, and its share of the median in all.

    A try is the name of each step and the time at its end; the first entry is the beginning.
    """
    names = [name for name, _ in tries[0]][1:]
    spans = [[b - a for (_, a), (_, b) in itertools.pairwise(t)] for t in tries]
    whole = median(sum(span) for span in spans)
    for name, values in zip(names, zip(*spans, strict=True), strict=True):
        middle = median(values)
        yield f"    {middle * 1e3:7.0f} ms  {middle / whole:4.0%}  {name}"
