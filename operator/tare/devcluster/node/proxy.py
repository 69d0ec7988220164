"""Services as local TCP proxies: one listener for each port of a cluster address.

Linux answers on every address of 127.0.0.0/8, so a cluster address needs no set-up. Each
connection is relayed to a random ready endpoint, as kube-proxy does. While none is ready nobody
listens, so that a client is refused at once, as by kube-proxy's REJECT rule.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from typing import TYPE_CHECKING, Final, cast

from tare.devcluster.apiserver.kinds.services import HEADLESS
from tare.devcluster.controllers.endpointslices import SERVICE_NAME, SERVICES, SLICES
from tare.devcluster.controllers.events import EventRecorder
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.registry import Registry
    from tare.devcluster.apiserver.store import Change

__all__ = ["ServiceProxy"]

_LOG = logging.getLogger(__name__)

_Address = tuple[str, int]
_ServiceKey = tuple[str, str]
_SETTLE_SECONDS: Final = 0.005


class ServiceProxy:
    """Keeps a listener for each port of each Service that has a ready endpoint."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._recorder = EventRecorder(registry, "service-proxy")
        self._listeners: dict[_ServiceKey, dict[_Address, _Listener]] = {}
        self._dirty: set[_ServiceKey] = set()
        self._wake = asyncio.Event()
        registry.store.listen(self._on_service, SERVICES)
        registry.store.listen(self._on_slice, SLICES)

    async def run(self) -> None:
        """Follow Services and slices until cancelled, then close everything."""
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(_SETTLE_SECONDS)
                self._wake.clear()
                dirty, self._dirty = self._dirty, set()
                for key in dirty:
                    await self._reconcile(key)
        finally:
            for listeners in self._listeners.values():
                for listener in listeners.values():
                    listener.close()

    def _on_service(self, change: Change) -> None:
        metadata = change.document["metadata"]
        self._mark((metadata["namespace"], metadata["name"]))

    def _on_slice(self, change: Change) -> None:
        metadata = change.document["metadata"]
        name = (metadata.get("labels") or {}).get(SERVICE_NAME)
        if name:
            self._mark((metadata["namespace"], name))

    def _mark(self, key: _ServiceKey) -> None:
        self._dirty.add(key)
        self._wake.set()

    async def _reconcile(self, key: _ServiceKey) -> None:
        service = self._registry.store.find(SERVICES, *key)
        wanted = self._backends(service) if service is not None else {}
        current = self._listeners.setdefault(key, {})
        for address in list(current):
            if not wanted.get(address):
                current.pop(address).close()
        for address, backends in wanted.items():
            if not backends:
                continue
            if address not in current:
                listener = _Listener(address)
                try:
                    await listener.start()
                except OSError as error:
                    assert service is not None
                    self._report(service, address, error)
                    continue
                current[address] = listener
            current[address].backends = backends

    def _report(self, service: Document, address: _Address, error: OSError) -> None:
        host, port = address
        message = f"cannot listen on {host}:{port}: {error.strerror}"
        self._recorder.warning(service, "FailedToListen", message)
        _LOG.warning("Service %s: %s", service["metadata"]["name"], message)

    def _backends(self, service: Document) -> dict[_Address, Sequence[_Address]]:
        """Return the ready endpoints of each port of a Service's address."""
        spec, metadata = service["spec"], service["metadata"]
        host = spec.get("clusterIP")
        if not host or host == HEADLESS:
            return {}
        slices = [
            document
            for document in self._registry.store.all(SLICES, metadata["namespace"])
            if (document["metadata"].get("labels") or {}).get(SERVICE_NAME) == metadata["name"]
        ]
        return {
            (host, port["port"]): [
                address for document in slices for address in _ready(document, port)
            ]
            for port in spec.get("ports") or ()
        }


def _ready(document: Document, service_port: Document) -> list[_Address]:
    name = service_port.get("name", "")
    ports = [port["port"] for port in document["ports"] or () if port.get("name", "") == name]
    return [
        (address, port)
        for endpoint in document["endpoints"] or ()
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
        for port in ports
    ]


class _Listener:
    """One open port of a cluster address."""

    def __init__(self, address: _Address) -> None:
        self._address = address
        self._server: asyncio.Server | None = None
        self._relays: set[_Relay] = set()
        self.backends: Sequence[_Address] = ()

    async def start(self) -> None:
        host, port = self._address
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port)

    def close(self) -> None:
        """Stop listening; connections that are open go on, as those through kube-proxy do."""
        if self._server is not None:
            self._server.close()

    def _accept(self) -> _Relay:
        return _Relay(random.choice(self.backends))  # noqa: S311 - balancing, not cryptography


class _Relay(asyncio.Protocol):
    """One side of a relayed connection; with a backend it opens the other side."""

    def __init__(self, backend: _Address | None) -> None:
        self._backend = backend
        self._connecting: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.peer: _Relay | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._backend is not None:
            self.transport.pause_reading()
            self._connecting = asyncio.ensure_future(self._connect(self._backend))

    async def _connect(self, backend: _Address) -> None:
        assert self.transport is not None
        loop = asyncio.get_running_loop()
        try:
            _, peer = await loop.create_connection(lambda: _Relay(None), *backend)
        except OSError:
            self.transport.abort()
            return
        self.peer, peer.peer = peer, self
        if self.transport.is_closing():
            peer.close()
        else:
            self.transport.resume_reading()

    @override
    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    @override
    def eof_received(self) -> bool:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write_eof()
        return True  # the other direction stays open

    @override
    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self.peer is not None:
            self.peer.close(abort=exc is not None)

    def close(self, *, abort: bool = False) -> None:
        """End this side with the other."""
        if self.transport is None or self.transport.is_closing():
            return
        if abort:
            self.transport.abort()
        else:
            self.transport.close()
