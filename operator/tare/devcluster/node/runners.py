"""Containers without a process: a coroutine in the cluster's loop plays the pod.

400 of them cost less than one Python interpreter, which is what benchmarks of the operator need.
"""

from __future__ import annotations

import asyncio
import traceback

from tare.devcluster.node.containers import KILLED, Container, Exit, PodContext, Runner
from tare.telemetry.overriding import override

__all__ = ["RunnerContainer"]


class RunnerContainer(Container):
    """One run of a runner."""

    def __init__(self, runner: Runner, context: PodContext) -> None:
        self._context = context
        self._task = asyncio.ensure_future(self._run(runner))

    async def _run(self, runner: Runner) -> Exit:
        try:
            return Exit.of(await runner(self._context))
        except asyncio.CancelledError:
            return Exit.of(KILLED)
        except Exception:  # noqa: BLE001 - whatever the pod's code raises is the pod's end
            self._context.log(traceback.format_exc())
            return Exit.of(1)

    @override
    async def wait(self) -> Exit:
        """Wait for its end."""
        return await asyncio.shield(self._task)

    @override
    def stop(self) -> None:
        """Ask it to end."""
        self._context.stopping.set()

    @override
    def kill(self) -> None:
        """End it at once."""
        self._task.cancel()
