"""What existed in a namespace while a test ran, also when it is gone at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from support.clusters import Api, collection
from tare.kube.port import Document, Kind

if TYPE_CHECKING:
    from support.bed import Bed

__all__ = ["Sightings", "sightings"]

Sightings = Mapping[Kind, Mapping[str, Document]]
"""By kind and uid, as the object was seen last."""

_AFTERGLOW = 0.1
"""Seconds that the last events may be on their way."""


@asynccontextmanager
async def sightings(bed: Bed, namespace: str, *kinds: Kind) -> AsyncIterator[Sightings]:
    """Watch objects of `kinds` until the block ends; those that are there already count too."""
    seen: dict[Kind, dict[str, Document]] = {kind: {} for kind in kinds}

    async def watch(api: Api, kind: Kind) -> None:
        path = collection(kind.group, kind.plural, namespace, kind.version)
        async for event in api.watch(path):
            document = event["object"]
            seen[kind][document["metadata"]["uid"]] = document

    async with Api.open(bed.kubeconfig) as api:
        watches = [asyncio.create_task(watch(api, kind)) for kind in kinds]
        yield seen
        await asyncio.sleep(_AFTERGLOW)
        for task in watches:
            assert task.cancel(), f"a watch ended early: {task.exception()}"
