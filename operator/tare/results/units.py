"""Numbers as people read them: three significant digits, and the unit that fits."""

from __future__ import annotations

import math

__all__ = ["clock", "latency", "number", "share", "with_interval"]

_DIGITS = 5
_MINUTE = 60
_THOUSAND = 1000


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with that many significant digits and no exponent; `-` for None."""
    if value is None:
        return "-"
    text = f"{value:.{digits}g}"
    if abs(float(text)) >= _THOUSAND:
        return f"{value:,.0f}"
    return text if "e" not in text else f"{float(text):.6f}".rstrip("0").rstrip(".")


def latency(seconds: float | None, half_width: float | None = None) -> str:
    """Write a latency in µs, ms or s, and how sure it is in the same unit."""
    if seconds is None:
        return "-"
    scale, unit = 1, "s"
    if abs(seconds) < 1:
        scale, unit = _THOUSAND, "ms"
    if 0 < abs(seconds) < 1 / _THOUSAND:
        scale, unit = _THOUSAND**2, "µs"
    return f"{with_interval(seconds, half_width, scale)} {unit}"


def clock(seconds: float) -> str:
    """Write a span as `1:05` or `2:01:05`."""
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def share(fraction: float | None, half_width: float | None = None) -> str:
    """Write a fraction as a percentage."""
    return "-" if fraction is None else f"{with_interval(fraction, half_width, 100)} %"


def with_interval(value: float | None, half_width: float | None = None, scale: float = 1) -> str:
    """Write a number and, where it is known, the half-width of its interval behind ±.

    Both have the decimals that give the half-width two significant digits, as long as the value
    has no more than five.
    """
    if value is None or half_width is None:
        return number(None if value is None else value * scale)
    value, half_width = value * scale, half_width * scale
    if not half_width:
        return f"{number(value)} ±0"
    decimals = min(1 - _magnitude(half_width), _DIGITS - 1 - _magnitude(value))
    return f"{value:,.{max(decimals, 0)}f} ±{half_width:,.{max(decimals, 0)}f}"


def _magnitude(value: float) -> int:
    """Return the power of ten of a number's first digit."""
    return math.floor(math.log10(abs(value))) if value else 0
