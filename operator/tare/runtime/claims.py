"""Who may measure a target: one run at a time, the oldest first.

Two runs share a target when they share a member: the Service, a pod behind it, or an origin given
by URL; names alone would not see two Services over the same pods. Within this process the runs
queue up here. A Lease named by the target's hash lets other operators see the owner; it belongs to
the run and goes with it, so it needs no renewal: a run that is not over owns its target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tare.api import names
from tare.kube.errors import AlreadyExists, NotFound
from tare.kube.port import LEASE, Cluster, Document
from tare.manifests.lease import build_lease, holder_of
from tare.manifests.metadata import Owner

__all__ = ["Claims"]


@dataclass(slots=True, kw_only=True)
class _Claim:
    owner: Owner
    created: str
    """Creation time of the run; RFC 3339 sorts as text."""
    members: frozenset[str]
    wake: Callable[[], None]
    lease: str = ""
    """Name of the Lease that it holds."""

    @property
    def place(self) -> tuple[str, str]:
        """Order in the queue."""
        return self.created, self.owner.uid


class Claims:
    """The queue for all targets of one operator process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._claims: dict[str, _Claim] = {}

    async def claim(
        self,
        owner: Owner,
        *,
        created: str,
        members: Callable[[], Awaitable[frozenset[str]]],
        wake: Callable[[], None],
    ) -> str | None:
        """Ask for a target; None when the run owns it, else the name of the run it waits for.

        Asking again is harmless, and necessary: nobody is called back but by `wake`. `members` is
        asked only while the target is not owned.
        """
        claim = self._claims.get(owner.uid)
        if claim is not None and claim.lease:
            return None
        claim = _Claim(owner=owner, created=created, members=await members(), wake=wake)
        self._claims[owner.uid] = claim
        if (before := self._before(claim)) is not None:
            return f"{before.owner.namespace}/{before.owner.name}"
        return await self._take(claim)

    async def release(self, owner: Owner) -> None:
        """Give the target up, or leave the queue; those who waited are woken."""
        claim = self._claims.pop(owner.uid, None)
        if claim is None:
            return
        if claim.lease:
            await self._cluster.delete(LEASE, owner.namespace, claim.lease)
        for other in self._claims.values():
            if other.members & claim.members:
                other.wake()

    def forget(self, owner: Owner) -> None:
        """Drop a run whose driver ended without giving its target up: the Lease stays."""
        self._claims.pop(owner.uid, None)

    def _before(self, claim: _Claim) -> _Claim | None:
        """The run that must go first: the owner of a shared member, else an older one in line."""
        rivals = [
            other
            for other in self._claims.values()
            if other is not claim and other.members & claim.members
        ]
        owning = [rival for rival in rivals if rival.lease]
        older = [rival for rival in rivals if rival.place < claim.place]
        return min(owning or older, key=lambda rival: rival.place, default=None)

    async def _take(self, claim: _Claim) -> str | None:
        name = _lease_name(claim.members)
        namespace = claim.owner.namespace
        try:
            await self._cluster.create(LEASE, namespace, build_lease(claim.owner, name))
        except AlreadyExists:
            try:
                found = await self._cluster.get(LEASE, namespace, name)
            except NotFound:
                return await self._take(claim)
            if not _is_ours(found, claim.owner):
                return f"{namespace}/{holder_of(found)}"
        claim.lease = name
        return None


def _lease_name(members: frozenset[str]) -> str:
    """Name by the members that outlive pods: a Service keeps its name while its pods change."""
    lasting = sorted(m for m in members if not m.startswith("pod:")) or sorted(members)
    digest = hashlib.sha256("\n".join(lasting).encode()).hexdigest()[:16]
    return f"{names.MANAGED_BY}-target-{digest}"


def _is_ours(lease: Document, owner: Owner) -> bool:
    owners = lease["metadata"].get("ownerReferences") or ()
    return any(reference["uid"] == owner.uid for reference in owners)
