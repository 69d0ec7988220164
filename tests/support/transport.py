"""The process border below a protocol: a transport that keeps what is written."""

from __future__ import annotations

import asyncio

from tare.telemetry.overriding import override

__all__ = ["MemoryTransport"]


class MemoryTransport(asyncio.Transport):
    """Keeps writes, and remembers that it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False
        self.unsent = 0
        """Bytes that the kernel has not taken yet."""

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    @override
    def get_write_buffer_size(self) -> int:
        return self.unsent

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    @override
    def abort(self) -> None:
        self.closed = True

    @override
    def close(self) -> None:
        self.closed = True

    @override
    def is_closing(self) -> bool:
        return self.closed
