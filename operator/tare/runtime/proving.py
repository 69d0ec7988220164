"""The reset of one trial as its settings ask for it, between the canaries that prove it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tare.endpoint.hooks.canary import Canary, canary_text, prove
from tare.endpoint.hooks.reset import reset
from tare.endpoint.scrape import scrape
from tare.measure.servers import ServerCount
from tare.net.origin import parse_base_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.api.endpoint import Endpoint
    from tare.api.hooks import ResetKvCache
    from tare.endpoint.client import Control
    from tare.measure.hooks import HookReport, Replica, Replicas
    from tare.telemetry.clock import Clock

__all__ = ["proven_reset"]


async def proven_reset(
    replicas: Replicas,
    endpoint: Endpoint,
    settings: ResetKvCache,
    *,
    mark: str,
    headers: Mapping[str, str],
    host: str | None,
    http: Control,
    clock: Clock,
) -> HookReport:
    """Empty the cache of every replica; `mark` gives this reset a prompt that was never sent."""
    canary = Canary(
        text=canary_text(mark),
        model=endpoint.model,
        headers=headers,
        host=host,
        http=http,
        clock=clock,
        timeout=settings.timeout_seconds,
        prefixes=_prefixes(endpoint),
    )
    send = partial(
        reset,
        replicas,
        path=settings.path,
        timeout=settings.timeout_seconds,
        max_retry=settings.max_retry_seconds,
        headers=headers,
        host=host,
        server=endpoint.server,
        http=http,
        clock=clock,
    )

    read = partial(scrape, headers=headers, host=host, server=endpoint.server, http=http)

    async def external_hits(replica: Replica) -> float | None:
        found = await read((replica,), path=endpoint.metrics_path)
        return found[replica.name].get(ServerCount.EXTERNAL_HITS)

    return await prove(
        replicas,
        send,
        canary=canary,
        external_hits=external_hits if settings.external else None,
    )


def _prefixes(endpoint: Endpoint) -> dict[str, str]:
    """Path under which the API of each URL of the load lies."""
    bases = (parse_base_url(url) for url in endpoint.given_urls)
    return {str(base.origin): base.prefix for base in bases}
