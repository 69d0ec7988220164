"""What the measured service costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["HOURS_PER_MONTH", "Cost"]

HOURS_PER_MONTH: Final = 730
"""8,760 hours of a year / 12: the month of the price lists of cloud providers."""

_SECONDS_PER_HOUR: Final = 3600
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Price of one replica, and how many of them are paid for."""

    usd_per_hour: float
    replicas: int = 1

    @property
    def monthly(self) -> float:
        """US dollars a month."""
        return self.usd_per_hour * self.replicas * HOURS_PER_MONTH

    def per_million_tokens(self, tokens_per_second: float) -> float | None:
        """US dollars for a million tokens at that throughput; None when there are none."""
        if not tokens_per_second:
            return None
        tokens_per_hour = tokens_per_second * _SECONDS_PER_HOUR
        return self.usd_per_hour * self.replicas / tokens_per_hour * _MILLION
