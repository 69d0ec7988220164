"""What the routes of one simulated server share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.sim.serve.faults import Faults
from tare.sim.serve.metrics import Metrics
from tare.sim.serve.openai import ApiError, Limits
from tare.sim.serve.options import Options
from tare.sim.serve.realtime import RealTime
from tare.sim.serve.truth import Truth

if TYPE_CHECKING:
    from tare.sim.serve.http import Connection

__all__ = ["State"]


@dataclass(slots=True, kw_only=True)
class State:
    """One server's parts."""

    options: Options
    limits: Limits
    engines: dict[str, RealTime]
    """By served name."""
    faults: Faults
    truth: Truth
    metrics: Metrics
    draining: bool = False
    """SIGTERM came: nothing new is taken in."""

    @property
    def distinct_engines(self) -> list[RealTime]:
        """Every engine once."""
        return list(dict.fromkeys(self.engines.values()))

    def misbehave(self, point: str, connection: Connection) -> int | str | None:
        """Show the fault that is switched on at `point`, if any, and return its answer.

        A status is sent and `hang` sends nothing; the other words are the caller's to play.
        """
        fault = self.faults.take(point, time.monotonic_ns())
        if fault is None:
            return None
        if isinstance(fault.answer, int):
            message = f"fault {point!r} is switched on"
            error = ApiError(fault.answer, message, "InjectedFault")
            retry = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
            connection.respond_json(fault.answer, error.document(), retry)
        return fault.answer
