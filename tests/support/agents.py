"""The published models of chapters 4 to 6: their sessions, server and engine."""

from __future__ import annotations

from tare.sim.core.agents import Agents
from tare.sim.core.areas import average
from tare.sim.core.steps import Limits
from tare.sim.core.turns import Server

__all__ = ["AGENTS", "CHAPTER_4", "LIMITS", "averaged"]

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
CHAPTER_4 = Server(capacity=60_000.0, block=0.0, prompt=2e-5, output=2e-4)
"""Exact holds, and whole prefixes are evicted."""
averaged = average
