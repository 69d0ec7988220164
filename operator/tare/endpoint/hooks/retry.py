"""When to try again: 1, 2, 4, 8, 8 … seconds, or as the server asks, inside a budget.

The last wait is cut so that one more try fits before the budget ends; nothing happens after it. The
budget is for repeating: the first try always has its whole timeout, so that a budget of zero means
one try.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["next_wait", "retry_after"]

_FIRST = 1.0
_LONGEST = 8.0
_LAST_TRY = 1.0
"""Seconds kept for the last try; an idle server resets its cache in milliseconds."""


def next_wait(attempt: int, left: float, asked: float | None) -> float | None:
    """Return the seconds to wait after `attempt` (from 1), or None to give up.

    `left` is what remains of the budget, `asked` the server's Retry-After: it is never undercut, so
    one that ends too late ends the trying.
    """
    latest = left - _LAST_TRY
    if latest < _FIRST:
        return None
    if asked is not None:
        return max(asked, _FIRST) if asked <= latest else None
    return min(_FIRST * 2.0 ** (attempt - 1), _LONGEST, latest)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read `Retry-After`, seconds or a date (RFC 9110, section 10.2.3); None when absent or odd."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max((date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds(), 0.0)
