"""`@override` on Python 3.11, whose `typing` has none; no package is needed for it at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):  # noqa: ANN001, ANN201 - type checkers see the other branch
        """Mark a method that replaces one of a base class; for type checkers and readers."""
        return method
