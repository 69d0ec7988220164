"""Durations, fractions and plain numbers as people write them in a manifest.

`500ms`, `2s`, `1m`, `1%`, `2.608`. A duration without a unit is refused: whether 500 means seconds
or milliseconds is the mistake that a benchmark must not guess about. Standard library only.
"""

from __future__ import annotations

import re

__all__ = [
    "DURATION_PATTERN",
    "NUMBER_PATTERN",
    "QUANTITY_PATTERN",
    "QuantityError",
    "parse_duration",
    "parse_fraction",
    "parse_number",
]

_NUMBER = r"[0-9]+(\.[0-9]+)?"
NUMBER_PATTERN = f"^{_NUMBER}$"
"""A plain decimal number; no sign, no exponent."""
DURATION_PATTERN = f"^{_NUMBER}(ms|s|m|h)$"
QUANTITY_PATTERN = f"^{_NUMBER}(ms|s|m|h|%)?$"
"""Any of the three; which one fits depends on the metric beside it."""

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PARTS = re.compile(rf"({_NUMBER})([a-z%]*)")


class QuantityError(ValueError):
    """A text is no quantity of the wanted kind; the message says what is allowed."""


def parse_duration(value: str | float) -> float:
    """Turn `500ms`, `2s`, `1m` or `1h` into seconds."""
    number, unit = _split(value)
    if unit not in _UNIT_SECONDS:
        raise QuantityError(f"{value} is no duration; write a number and ms, s, m or h, as 500ms")
    return number * _UNIT_SECONDS[unit]


def parse_fraction(value: str | float) -> float:
    """Turn `1%`, `"0.01"` or `0.01` into a fraction of 0 to 1."""
    number, unit = _split(value)
    if unit not in ("", "%"):
        raise QuantityError(f"{value} is no share; write a percentage as 1%, or a fraction as 0.01")
    fraction = number / 100 if unit else number
    if not 0 <= fraction <= 1:
        raise QuantityError(f"{value} is no share of 0 to 1; write a percentage as 1%")
    return fraction


def parse_number(value: str | float) -> float:
    """Turn `"2.5"` or `2.5` into a number of 0 or more."""
    number, unit = _split(value)
    if unit:
        raise QuantityError(f"{value} has a unit; write a plain number")
    return number


def _split(value: str | float) -> tuple[float, str]:
    """Split a quantity into its number and its unit; a JSON number has none."""
    if not isinstance(value, str):
        if not value >= 0:
            raise QuantityError(f"{value} is negative; use 0 or more")
        return float(value), ""
    found = _PARTS.fullmatch(value)
    if found is None:
        raise QuantityError(f"{value!r} is no quantity; write it as 500ms, 1% or 2.5")
    return float(found[1]), found[3]
