"""Numbers as people read them: three significant digits, and the unit that fits."""

from __future__ import annotations

__all__ = ["clock", "latency", "number", "share"]

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


def latency(seconds: float | None) -> str:
    """Write a latency in µs, ms or s."""
    if seconds is None:
        return "-"
    if abs(seconds) >= 1:
        return f"{number(seconds)} s"
    if abs(seconds) >= 1 / _THOUSAND:
        return f"{number(seconds * _THOUSAND)} ms"
    return f"{number(seconds * _THOUSAND**2)} µs" if seconds else "0 ms"


def clock(seconds: float) -> str:
    """Write a span as `1:05` or `2:01:05`."""
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def share(fraction: float | None) -> str:
    """Write a fraction as a percentage."""
    return "-" if fraction is None else f"{number(fraction * 100)} %"
