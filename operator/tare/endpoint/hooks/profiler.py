"""Start and stop the profiler of every replica, so that none is left running.

A start that failed may have started: the answer can be lost after the server acted. So whatever a
start was *tried* on is stopped, and a stop is called on every replica whatever the others answer.
Nothing is tried twice here, because starts and stops must stay equal in number; a caller that is
cancelled in a start has to call `stop_profiler` itself, as after a crash.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tare.endpoint.hooks.call import Hook
from tare.endpoint.hooks.report import nobody, report_of
from tare.measure.hooks import HookKind, HookReport, Replicas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.endpoint.client import Control
    from tare.telemetry.clock import Clock

__all__ = ["start_profiler", "stop_profiler"]


async def start_profiler(
    replicas: Replicas,
    *,
    path: str,
    stop_path: str,
    timeout: float,  # noqa: ASYNC109 - of one POST
    stop_timeout: float,
    headers: Mapping[str, str],
    host: str | None,
    server: str,
    http: Control,
    clock: Clock,
    body: Mapping[str, Any] | None = None,
) -> HookReport:
    """Start on every ready replica; when one fails, stop them all and report the failure.

    `body` goes with the start as JSON; an empty one is none, as old servers want it. The rows of
    those stops follow the rows of the starts; how they ended changes the message only.
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
    report = await _report(hook, replicas, timeout)
    if report.ok:
        return report
    stop = replace(hook, kind=HookKind.PROFILER_STOP, path=stop_path, body=None)
    stopped = await _report(stop, replicas, stop_timeout)
    message = report.message if stopped.ok else f"{report.message}; then {stopped.message}"
    return replace(report, message=message, calls=report.calls + stopped.calls)


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
    return await _report(hook, replicas, timeout)


async def _report(hook: Hook, replicas: Replicas, longest: float) -> HookReport:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(hook.post(replica, timeout=longest)) for replica in replicas.ready
        ]
    rows = [(task.result().row,) for task in tasks]
    return report_of(hook.kind, hook.path, replicas.ready, rows)
