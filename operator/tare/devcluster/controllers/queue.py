"""A work queue on the event loop: keys in, one synchronous reconcile a key, merged and repeated."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WorkQueue"]

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5

_Key = TypeVar("_Key")


class WorkQueue(Generic[_Key]):
    """Calls `reconcile` soon after a key was added; keys added meanwhile are one call.

    The pause merges bursts: 400 pods that change at once cost their Job a few passes, not 400.
    """

    def __init__(self, reconcile: Callable[[_Key], None], *, pause: float = 0.005) -> None:
        self._reconcile = reconcile
        self._pause = pause
        self._timers: dict[_Key, asyncio.TimerHandle] = {}

    def add(self, key: _Key, after: float = 0.0) -> None:
        """Reconcile `key` in `after` seconds; an earlier appointment stands."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(after, self._pause)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._run, key)

    def close(self) -> None:
        """Drop every appointment."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _run(self, key: _Key) -> None:
        del self._timers[key]
        try:
            self._reconcile(key)
        except Exception:  # noqa: BLE001 - logged; a bug in one pass must not end the controller
            _LOG.exception("reconciling %s failed; trying again", key)
            self.add(key, _RETRY_SECONDS)
