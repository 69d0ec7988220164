"""What existed in a namespace while a test ran, also when it is gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tare.kube.errors import KubeError
from tare.kube.port import Document, Kind

if TYPE_CHECKING:
    from support.bed import Bed

__all__ = ["Sightings", "sightings"]

Sightings = Mapping[Kind, Mapping[str, Document]]
"""By kind and uid, as the object was seen last."""

_EVERY = 0.03
"""Seconds between two looks; a worker's Job lives for several hundred milliseconds at least."""


@asynccontextmanager
async def sightings(bed: Bed, namespace: str, *kinds: Kind) -> AsyncIterator[Sightings]:
    """Look at objects of `kinds` again and again until the block ends, once more at its end."""
    seen: dict[Kind, dict[str, Document]] = {kind: {} for kind in kinds}

    async def look() -> None:
        for kind in kinds:
            for document in await bed.cluster.list(kind, namespace):
                seen[kind][document["metadata"]["uid"]] = document

    async def watch() -> None:
        while True:
            with contextlib.suppress(KubeError):
                await look()
            await asyncio.sleep(_EVERY)

    watching = asyncio.create_task(watch())
    try:
        yield seen
        await look()
    finally:
        watching.cancel()
