"""What the simulated server does under a load is what `tare sim predict` said that it would do.

The times of requests that are served side by side are compared in tests/truth, on a calm machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.forecasts import Plan, measured, model_of, predicted, tokens
from support.load import closed_loop
from tare.measure.rows import read_rows

if TYPE_CHECKING:
    from pathlib import Path


async def test_one_after_the_other_every_request_finds_the_predicted_tokens(
    tmp_path: Path,
) -> None:
    phase = closed_loop(requests=30, concurrency=1)
    plan = Plan(model=model_of(tmp_path, blocks=2000), phase=phase)
    virtual, usage = await predicted(plan)
    live, _ = await measured(plan)
    assert usage.evicted_blocks == 0
    assert tokens(live) == tokens(virtual)
    assert sum(cached for _, _, cached in tokens(live)) > 0
    # A machine adds time and never takes any away, so this holds on a busy one too.
    for one, other in zip(read_rows(live.rows), read_rows(virtual.rows), strict=True):
        assert (one.time_to_first_token or 0) >= (other.time_to_first_token or 0) > 0
        assert (one.latency or 0) >= (other.latency or 0)
