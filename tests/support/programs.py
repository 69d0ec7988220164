"""Runs of programs with a check after every pool operation."""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tare.sim.core import pool as pools
from tare.sim.core.pool import CACHED, EPSILON, USED, Pool
from tare.sim.program import run as running
from tare.sim.program.constants import evaluate, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.sim.program.outcome import Outcome
    from tare.sim.program.run import Model

__all__ = ["checked_run"]

_WATCHED = ("consume", "evict", "evict_oldest", "occupy", "release", "keep", "drop")


def checked_run(model: Model, **overrides: float) -> Outcome:
    """Run a program twice, as it is and with its pool functions called and checked.

    The second kernel is not flattened, so that the two ways of running it are compared as well.
    """
    constants = resolve(model.program, overrides).constants
    capacities = iter(
        [evaluate(p.cap, constants) if p.cap else math.inf for p in model.program.pools]
    )
    limits: list[tuple[Pool, float]] = []

    def new_pool() -> Pool:
        limits.append((pools.new_pool(), next(capacities)))
        return limits[-1][0]

    names = dict(running._namespace(compiled=False)) | {"new_pool": new_pool}
    for name in _WATCHED:
        names[name] = _checked(getattr(pools, name), limits)
    plain = model.run(overrides)
    model._kernels.clear()
    with (
        patch.object(running, "_INLINED", {}),
        patch.object(running, "_TUPLES", {}),
        patch.object(running, "_namespace", lambda **_: names),
    ):
        checked = model.run(overrides)
    model._kernels.clear()
    assert checked == plain
    assert len(limits) == len(model.program.pools)
    return plain


def _checked(function: Callable[..., Any], limits: list[tuple[Pool, float]]) -> Callable[..., Any]:
    @wraps(function)
    def checked(*arguments: Any) -> Any:
        result = function(*arguments)
        for pool, capacity in limits:
            assert pool.levels[USED] + pool.levels[CACHED] <= capacity + EPSILON
        return result

    return checked
