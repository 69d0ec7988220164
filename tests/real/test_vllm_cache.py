"""Rows of the cache matrix on a real vLLM: what it finds cached is what was planned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.bed import told
from support.cache_matrix import Row, assert_as_planned, by_load, run_of

if TYPE_CHECKING:
    from support.bed import Bed

URL = os.environ.get("TARE_VLLM_URLS", "http://127.0.0.1:18800").split()[0]
ROWS: tuple[Row, ...] = (
    ("none", "none", "Trajectory", "concurrency", "start"),
    ("shared system", "system_prefix", "Trajectory", "concurrency", "start"),
    ("verbatim system", "system_suffix", "TrajectoryAndPhase", "concurrency", "off"),
    ("prefix pool", "first_turn_suffix", "Trajectory", "concurrency", "before profiling"),
    ("shared system", "warmup_isolation_system", "Trajectory", "poisson", "start"),
    ("user context", "warmup_isolation_first_turn", "Trajectory", "poisson", "off"),
    ("shared system", "first_turn_prefix", "TrajectoryAndPhase", "sessions", "start"),
    ("user context", "first_turn_prefix", "Trajectory", "sessions", "before profiling"),
)


@pytest.mark.parametrize("load", ["concurrency", "poisson", "sessions"])
async def test_a_real_server_finds_what_was_planned(bed: Bed, load: str) -> None:
    namespace = await bed.namespace()
    rows = dict(by_load(ROWS))[load]
    document = run_of(load, rows, url=URL, model="tiny", server="vllm")
    run = await bed.submit(namespace, document)
    status = await bed.finished(namespace, load, seconds=900)
    said = told(status, "CacheAsPlanned")
    assert said["reason"] == "AsPlanned", said
    await assert_as_planned(bed, run)
