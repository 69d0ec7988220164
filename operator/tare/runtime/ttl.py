"""Deleting finished runs after `ttlSecondsAfterFinished`: one sweeper for all.

A finished run has no driver. The sweeper keeps the moments at which runs expire, and looks at them
once a second; the delete carries the UID, so a re-created run of the same name is safe.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tare.decide.stored import is_finished
from tare.kube.errors import KubeError
from tare.kube.port import RUN, Document

if TYPE_CHECKING:
    from tare.runtime.context import Context

__all__ = ["Sweeper"]

_LOG = logging.getLogger(__name__)
INTERVAL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expiry:
    namespace: str
    name: str
    at: float
    """Epoch seconds."""


class Sweeper:
    """Expiry times of finished runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._expiries: dict[str, _Expiry] = {}

    def see(self, document: Document) -> None:
        """Note when a run expires; a change of the time to live counts at once."""
        metadata, status = document["metadata"], document.get("status") or {}
        ttl = document.get("spec", {}).get("ttlSecondsAfterFinished")
        finished = status.get("finishTime")
        if ttl is None or finished is None or not is_finished(status):
            self._expiries.pop(metadata["uid"], None)
            return
        at = datetime.fromisoformat(finished).timestamp() + ttl
        self._expiries[metadata["uid"]] = _Expiry(
            namespace=metadata["namespace"], name=metadata["name"], at=at
        )

    def forget(self, uid: str) -> None:
        """The run is gone."""
        self._expiries.pop(uid, None)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self.sweep()
            await self._context.clock.sleep(INTERVAL)

    async def sweep(self) -> None:
        """Delete what has expired."""
        now = self._context.clock.wall().timestamp()
        for uid, expiry in list(self._expiries.items()):
            if expiry.at > now:
                continue
            try:
                await self._context.cluster.delete(RUN, expiry.namespace, expiry.name, uid=uid)
            except KubeError as error:
                _LOG.warning("run %s is not deleted yet: %s", expiry.name, error)
            else:
                self._expiries.pop(uid, None)
