"""Whether a set of replicas has come to rest, before a trial that was lost is repeated.

A rolling update replaces one pod after the other and may take minutes; a trial that is repeated in
the middle of it is lost again, for good. No Deployment has to be known for this: while a pod is on
its way in or out the set moves, and so does one that looked otherwise a moment ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError

if TYPE_CHECKING:
    from tare.measure.hooks import Replicas
    from tare.telemetry.clock import Clock

__all__ = ["REST", "Settling"]

REST = 3.0
"""Seconds without a change after which a set has come to rest; between two steps of a rolling
update there is less than one."""


class Settling:
    """Looks at one set again and again."""

    def __init__(self, clock: Clock, patience: float) -> None:
        """After `patience` seconds any set will do: a pod may never get ready."""
        self._clock = clock
        self._ends = clock.now() + patience
        self._uids: tuple[str, ...] = ()
        self._since = clock.now()

    def check(self, found: Replicas) -> None:
        """Take a look.

        Raises:
            TargetError: the set still moves; never a final one.
        """
        now = self._clock.now()
        if moving := (*found.terminating, *found.not_ready):
            self._uids = ()
            self._refuse(now, f"{', '.join(moving)} to come or go")
        elif found.uids != self._uids:
            self._uids, self._since = found.uids, now
        if now - self._since < REST:
            self._refuse(now, f"the {len(found.ready)} replicas to stay the same for {REST:g} s")

    def _refuse(self, now: float, awaited: str) -> None:
        if now < self._ends:
            text = f"a trial was lost and is repeated; waits for {awaited}"
            raise TargetError(Reason.TARGET_NOT_READY, text, final=False)
