"""A pairwise cover of the cache matrix, live: every cell finds what its plan says.

One run for each kind of load, each on a server of its own, at the same time. All rows of the matrix
are in tests/unit/plan/cache/test_matrix.py, in virtual time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.bed import QUICK, told
from support.cache_matrix import LOADS, assert_as_planned, by_load, cover, run_of

if TYPE_CHECKING:
    from support.bed import Bed

MOST = 40
FAST = ("--prefill-rate", "1000000")
"""No more are on their way together than a loaded machine's plan can decide about."""


async def test_every_cell_of_a_pairwise_cover_finds_what_was_planned(bed: Bed) -> None:
    rows = cover()
    assert len(rows) <= MOST
    namespace = await bed.namespace()
    servers = await asyncio.gather(
        *(bed.servers(namespace, *QUICK, *FAST, replicas=1, name=load) for load in LOADS)
    )
    assert all(servers)
    runs = []
    for load, found in by_load(rows):
        service = {"name": load, "port": 8000}
        document = run_of(load, found, service=service, model="m")
        runs.append(await bed.submit(namespace, document))
    for run in runs:
        status = await bed.finished(namespace, run["metadata"]["name"], seconds=300)
        said = told(status, "CacheAsPlanned")
        assert said["reason"] == "AsPlanned", said
        assert not any("cache" in cell for cell in status["cells"]), "all are as planned"
        await assert_as_planned(bed, run)
