"""Model servers on loopback as replicas of one Service, for tests of hooks."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from support.scripted_http import ScriptedServer, scripted
from tare.measure.hooks import Replica, Replicas

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["fleet", "replicas_of"]


@asynccontextmanager
async def fleet(size: int) -> AsyncIterator[list[ScriptedServer]]:
    """Run `size` servers."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(scripted()) for _ in range(size)]


def replicas_of(servers: list[ScriptedServer], *, not_ready: tuple[str, ...] = ()) -> Replicas:
    """Name them `qwen-0`, `qwen-1` … as discovery would."""
    return Replicas(
        ready=tuple(
            Replica(uid=f"uid-{index}", name=f"qwen-{index}", origin=server.origin)
            for index, server in enumerate(servers)
        ),
        not_ready=not_ready,
        service_host="qwen.bench.svc:8000",
    )
