"""Numbers of the command line."""

from __future__ import annotations

import math
from typing import Any

import click

from tare.telemetry.overriding import override

__all__ = ["FiniteRange"]


class FiniteRange(click.FloatRange):
    """A range of real numbers; click's own lets nan through, which is in no range."""

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Part of click.ParamType."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number; write one, as 30 or 0.5.", param, ctx)
        return number
