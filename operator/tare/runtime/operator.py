"""The operator: one driver per live run, and what it does without Kopf.

`kopf_app` hands over what it sees (runs, their Jobs and pods); everything else is here, in plain
methods. A driver lives in a task of its own, not in Kopf's daemon: Kopf cancels a daemon a few
seconds after its object is deleted, but stopping a profiler may take minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.decide.stored import is_finished
from tare.manifests.metadata import Owner
from tare.runtime.driver import Driver
from tare.runtime.publish import publish, run_name
from tare.runtime.ttl import Sweeper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.kube.port import Document
    from tare.runtime.context import Context

__all__ = ["Operator"]

_LOG = logging.getLogger(__name__)
EXIT_PATIENCE = 3.0
"""Seconds that drivers get to end a pass when the process exits."""


class Operator:
    """All runs of one operator process."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sweeper = Sweeper(context)
        self._drivers: dict[str, Driver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._exiting = False

    def see_run(self, document: Document, *, deleted: bool = False) -> None:
        """Take in a run from a watch event; start or wake its driver when it needs one."""
        uid = document["metadata"]["uid"]
        if deleted:
            self._forget(document)
            return
        self.sweeper.see(document)
        driver = self._drivers.get(uid)
        if driver is not None:
            driver.observe(document)
        elif _needs_cleaning(document) or not is_finished(document.get("status") or {}):
            if not _is_deleted(document) or _needs_cleaning(document):
                self.drive(document)
        else:
            self._publish(document)

    def drive(self, document: Document) -> asyncio.Task[None]:
        """Have a driver for a run; returns the task that ends with it."""
        uid = document["metadata"]["uid"]
        task = self._tasks.get(uid)
        if task is None:
            driver = self._drivers[uid] = Driver(self.context, document)
            task = asyncio.create_task(self._guard(driver), name=f"run {driver.owner.name}")
            self._tasks[uid] = task
        return task

    def see_child(self, plural: str, document: Document, event: str | None) -> None:
        """Take in a Job or a pod of a run; `event` is None where a watch began with a LIST.

        Most events of a pod change nothing that a decision looks at, and wake nobody.
        """
        uid = (document["metadata"].get("labels") or {}).get(names.LABEL_RUN_UID)
        driver = self._drivers.get(uid or "")
        if driver is None:
            return
        see = driver.children.see_job if plural == "jobs" else driver.children.see_pod
        is_news = see(document, deleted=event == "DELETED")
        if event is None:
            driver.list_again()
        if is_news or event is None:
            driver.wake()

    async def exit(self) -> None:
        """End the drivers without touching their runs: the next process goes on with them."""
        self._exiting = True
        for driver in self._drivers.values():
            driver.exit()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=EXIT_PATIENCE)
        for task in self._tasks.values():
            task.cancel()

    @property
    def overdue(self) -> list[str]:
        """Names of runs whose driver has not made a pass for too long."""
        return [driver.owner.name for driver in self._drivers.values() if driver.overdue]

    async def _guard(self, driver: Driver) -> None:
        """Run a driver; an error of ours must not end the run's care for good."""
        uid = driver.owner.uid
        try:
            await driver.run()
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - logged, and the run is taken up again
            _LOG.exception("the driver of %s failed", driver.owner.name)
            self._again_later(driver)
        finally:
            self._drivers.pop(uid, None)
            self._tasks.pop(uid, None)

    def _again_later(self, driver: Driver) -> None:
        if not self._exiting:
            loop = asyncio.get_running_loop()
            loop.call_later(5.0, lambda: self.see_run(driver.document))

    def _forget(self, document: Document) -> None:
        metadata = document["metadata"]
        driver = self._drivers.get(metadata["uid"])
        if driver is not None:
            driver.exit()
        self.sweeper.forget(metadata["uid"])
        owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
        self.context.metrics.forget(run_name(owner))

    def _publish(self, document: Document) -> None:
        metadata = document["metadata"]
        owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
        with contextlib.suppress(KeyError, TypeError):
            publish(self.context.metrics, owner, document)


def _is_deleted(document: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in document["metadata"]


def _needs_cleaning(document: Mapping[str, Any]) -> bool:
    """A run that is being deleted while one of our profilers may run.

    Kopf starts no daemon for an object that was deleted while the operator was down.
    """
    finalizers = document["metadata"].get("finalizers") or ()
    return _is_deleted(document) and names.FINALIZER_PROFILER in finalizers
