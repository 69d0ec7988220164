"""Readiness probes: HTTP and TCP, sent to the pod's own address.

Until the first success a probe is sent ten times a second whatever its period says, so that a pod
is ready as soon as its server is.
https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.devcluster.apiserver.documents import Document

__all__ = ["probe_forever"]

_EAGER_SECONDS: Final = 0.1
_OK: Final = range(200, 400)


async def probe_forever(
    probe: Document,
    container: Document,
    address: str,
    report: Callable[[bool, str], None],
) -> None:
    """Probe until cancelled; `report` is called with each change, and with why it failed."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    ready: bool | None = None
    good = bad = 0
    while True:
        failure = await _probe(probe, container, address)
        good, bad = (0, bad + 1) if failure else (good + 1, 0)
        if good >= probe["successThreshold"] and not ready:
            ready = True
            report(True, "")
        elif bad >= probe["failureThreshold"] and ready is not False:
            ready = False
            report(False, failure)
        await asyncio.sleep(probe["periodSeconds"] if ready else _EAGER_SECONDS)


async def _probe(probe: Document, container: Document, address: str) -> str:
    """Send one probe; return why it failed, empty when it did not."""
    try:
        async with asyncio.timeout(probe["timeoutSeconds"]):
            match probe:
                case {"httpGet": request}:
                    return await _get(request, container, address)
                case {"tcpSocket": target}:
                    return await _connect(address, _port(target["port"], container))
                case _:
                    return "the devcluster implements httpGet and tcpSocket probes only"
    except TimeoutError:
        return "context deadline exceeded"
    except OSError as error:
        return f"dial tcp {address}: connect: {error.strerror or error}"


async def _connect(address: str, port: int) -> str:
    _, writer = await asyncio.open_connection(address, port)
    writer.close()
    return ""


async def _get(request: Document, container: Document, address: str) -> str:
    port = _port(request["port"], container)
    reader, writer = await asyncio.open_connection(address, port)
    try:
        path = request.get("path", "/")
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {address}:{port}\r\n"
            "User-Agent: kube-probe/1.34\r\nConnection: close\r\n\r\n".encode()
        )
        line = await reader.readline()
    finally:
        writer.close()
    try:
        status = int(line.split()[1])
    except (IndexError, ValueError):
        return f"malformed HTTP response {line!r}"
    return "" if status in _OK else f"HTTP probe failed with statuscode: {status}"


def _port(port: Any, container: Document) -> int:
    """Resolve a port that may be named; 0, which nobody listens on, for an unknown name."""
    if isinstance(port, int):
        return port
    for entry in container.get("ports") or ():
        if entry.get("name") == port:
            return int(entry["containerPort"])
    return 0
