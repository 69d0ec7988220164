"""A rate or a concurrency that ramps up and then stays; in closed form, so that nothing drifts.

An open loop's requests are due where the area under its rate reaches the sum of their gaps: gaps
are drawn with a mean of one and stretched by the pace. For exponential gaps that is exactly a
Poisson process of varying rate (time rescaling), not an approximation by steps.
https://en.wikipedia.org/wiki/Poisson_point_process#Inhomogeneous_Poisson_point_process
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tare.plan.order import RampOrder

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A value over time: from `start` to `target` within `seconds`, in a line or exponentially."""

    target: float
    start: float
    seconds: float
    exponential: bool = False

    @classmethod
    def of(cls, target: float, ramp: RampOrder | None) -> Pace:
        """Return the pace to `target`; without a ramp it is there from the gate on."""
        if ramp is None or ramp.start >= target:
            return cls(target=target, start=target, seconds=0.0)
        exponential = ramp.type == "exponential"
        return cls(target=target, start=ramp.start, seconds=ramp.seconds, exponential=exponential)

    def reached(self, level: float) -> float:
        """Return the first moment at which the value is `level`, which it reaches."""
        if level <= self.start:
            return 0.0
        if self.exponential:
            return self.seconds * math.log(level / self.start) / self._growth
        return self.seconds * (level - self.start) / (self.target - self.start)

    def area(self, time: float) -> float:
        """Return the integral of the value from the gate to `time`: the arrivals due by then."""
        ramping = min(time, self.seconds)
        steady = self.target * (time - ramping)
        if not self.seconds:
            return steady
        if self.exponential:
            factor = self.start * self.seconds / self._growth
            return factor * math.expm1(self._growth * ramping / self.seconds) + steady
        slope = (self.target - self.start) / self.seconds
        return (self.start + slope * ramping / 2) * ramping + steady

    def when(self, area: float) -> float:
        """Return the moment at which `area` is reached: the inverse of `area`."""
        rest = area - self.area(self.seconds) if self.seconds else area
        if rest >= 0:
            return self.seconds + rest / self.target
        if self.exponential:
            factor = self.start * self.seconds / self._growth
            return self.seconds / self._growth * math.log1p(area / factor)
        slope = (self.target - self.start) / self.seconds
        # The textbook form of the root loses all digits where the slope is small.
        root = self.start + math.sqrt(self.start**2 + 2 * slope * area)
        return 2 * area / root if root else 0.0

    @property
    def _growth(self) -> float:
        return math.log(self.target / self.start)
