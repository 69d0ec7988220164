"""Numbers in a request's query: refused with 400 when they are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.devcluster.apiserver.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["whole_number"]


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """Read a whole number, zero or more; None when it is absent."""
    text = query.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)
