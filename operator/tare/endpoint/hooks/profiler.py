"""Start and stop the profiler of every replica, so that none is left running.

A start that failed may have started: the answer can be lost after the server acted. So a caller
stops whatever a start was *tried* on, be it after a failed start, a cancelled one or a crash. A
start is tried once, since starts and stops must stay equal in number. A stop that fails is tried
once more: a stop too many does nothing, and a profiler that is left on spoils all that comes after.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tare.endpoint.hooks.call import Hook
from tare.endpoint.hooks.report import nobody, report_of
from tare.measure.hooks import HookCall, HookKind, HookReport, Replica, Replicas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.endpoint.client import Control
    from tare.telemetry.clock import Clock

__all__ = ["start_profiler", "stop_profiler"]

_PAUSE = 1.0
"""Seconds before a stop is tried again."""
_LAST_TRY = 25.0
"""Seconds at most that the second try of a stop waits for its answer."""


async def start_profiler(
    replicas: Replicas,
    *,
    path: str,
    timeout: float,  # noqa: ASYNC109 - of one POST
    headers: Mapping[str, str],
    host: str | None,
    server: str,
    http: Control,
    clock: Clock,
    body: Mapping[str, Any] | None = None,
) -> HookReport:
    """Start on every ready replica; when one fails, the caller stops them all.

    `body` goes with the start as JSON; an empty one is none, as old servers want it.
    """
    if not replicas.ready:
        return nobody(HookKind.PROFILER_START)
    hook = Hook(
        kind=HookKind.PROFILER_START,
        path=path,
        headers=headers,
        host=host,
        server=server,
        http=http,
        clock=clock,
        body=json.dumps(body).encode() if body else None,
    )
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(hook.post(replica, timeout=timeout)) for replica in replicas.ready
        ]
    return report_of(hook.kind, path, replicas.ready, [(task.result().row,) for task in tasks])


async def stop_profiler(
    replicas: Replicas,
    *,
    path: str,
    timeout: float,  # noqa: ASYNC109 - of one POST
    headers: Mapping[str, str],
    host: str | None,
    server: str,
    http: Control,
    clock: Clock,
) -> HookReport:
    """Stop on every ready replica of `replicas`: those on which the start was tried.

    A server answers when its trace is written, which takes minutes on a real vLLM; until then it
    answers nothing else.
    """
    hook = Hook(
        kind=HookKind.PROFILER_STOP,
        path=path,
        headers=headers,
        host=host,
        server=server,
        http=http,
        clock=clock,
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_stop(hook, replica, timeout)) for replica in replicas.ready]
    return report_of(hook.kind, path, replicas.ready, [task.result() for task in tasks])


async def _stop(hook: Hook, replica: Replica, longest: float) -> tuple[HookCall, ...]:
    first = (await hook.post(replica, timeout=longest)).row
    if first.outcome.is_done:
        return (first,)
    await hook.clock.sleep(_PAUSE)
    again = await hook.post(replica, timeout=min(longest, _LAST_TRY), attempt=2)
    return first, again.row
