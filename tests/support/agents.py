"""The published model of chapters 5 and 6: its sessions and its engine."""

from __future__ import annotations

from tare.sim.core.agents import Agents
from tare.sim.core.areas import average
from tare.sim.core.steps import Limits

__all__ = ["AGENTS", "LIMITS", "averaged"]

AGENTS = Agents(
    rate=0.5,
    first_low=1000.0,
    first_high=3000.0,
    later=500.0,
    output=200.0,
    again=0.8,
    pause=3.0,
    whole=False,
)
LIMITS = Limits(
    budget=2048.0,
    max_requests=16,
    block=16.0,
    capacity=64_000.0,
    alpha=2e-5,
    omega=2e-4,
    beta=2e-9,
    jump=True,
)
averaged = average
