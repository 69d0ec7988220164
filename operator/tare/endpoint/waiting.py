"""Waiting for a target: look, and look again while what is missing may still come."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.kube.errors import Forbidden, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tare.telemetry.clock import Clock

__all__ = ["until_ready"]

T = TypeVar("T")

_POLL = 1.0
"""Seconds between two looks."""


async def until_ready(
    look: Callable[[], Awaitable[T]],
    *,
    ends: float,
    clock: Clock,
    tell: Callable[[str], None],
) -> T:
    """Return what `look` returns; repeat it while it fails for a reason that can pass.

    `ends` is a time of `clock`. What is waited for is told when it changes. An API server that
    cannot be asked is waited for as well; a right that the operator lacks is not.

    Raises:
        TargetError: a final one at once, any other when there is no time for another look.
    """
    said = ""
    while True:
        try:
            return await look()
        except TargetError as error:
            last = error
        except Forbidden as error:
            raise TargetError(Reason.NOT_ALLOWED, str(error), final=True) from error
        except Unavailable as error:
            last = TargetError(Reason.TARGET_NOT_READY, str(error), final=False)
        if last.final or clock.now() + _POLL > ends:
            raise last
        if last.message != said:
            said = last.message
            tell(said)
        await clock.sleep(_POLL)
