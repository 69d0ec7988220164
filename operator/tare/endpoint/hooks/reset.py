"""Empty the KV cache of every replica at once, trying again while a server is busy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tare.endpoint.hooks.call import Hook
from tare.endpoint.hooks.report import nobody, report_of
from tare.endpoint.hooks.retry import next_wait
from tare.measure.hooks import HookCall, HookKind, HookReport, Replica, Replicas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.endpoint.client import Control
    from tare.telemetry.clock import Clock

__all__ = ["reset"]


async def reset(
    replicas: Replicas,
    *,
    path: str,
    timeout: float,  # noqa: ASYNC109 - of one POST; the budget is max_retry
    max_retry: float,
    headers: Mapping[str, str],
    host: str | None,
    server: str,
    http: Control,
    clock: Clock,
) -> HookReport:
    """POST to every ready replica and report; the caller has seen to it that nothing runs.

    A busy or silent server is tried again for `max_retry` seconds, each try for at most `timeout`
    seconds; with `max_retry` 0 there is one try. Replicas do not wait for each other.
    """
    if not replicas.ready:
        return nobody(HookKind.RESET)
    hook = Hook(
        kind=HookKind.RESET,
        path=path,
        headers=headers,
        host=host,
        server=server,
        http=http,
        clock=clock,
    )
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_until_done(hook, replica, timeout, max_retry))
            for replica in replicas.ready
        ]
    return report_of(hook.kind, path, replicas.ready, [task.result() for task in tasks])


async def _until_done(
    hook: Hook, replica: Replica, longest: float, max_retry: float
) -> list[HookCall]:
    ends = hook.clock.now() + max_retry
    rows: list[HookCall] = []
    allowed = longest
    while True:
        posted = await hook.post(replica, timeout=allowed, attempt=len(rows) + 1)
        rows.append(posted.row)
        if not posted.retry:
            return rows
        wait = next_wait(len(rows), ends - hook.clock.now(), posted.retry_after)
        if wait is None:
            return rows
        await hook.clock.sleep(wait)
        allowed = min(longest, ends - hook.clock.now())
