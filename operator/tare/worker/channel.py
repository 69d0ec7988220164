"""Messages between the processes of one worker: length and JSON over a socket pair."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tare.measure.wire import decode, encode

if TYPE_CHECKING:
    import socket

__all__ = ["Channel"]

T = TypeVar("T")

_LENGTH = struct.Struct("!I")


class Channel:
    """One end of a pair; its other end is the other process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, sock: socket.socket) -> Self:
        """Take over one socket of a pair."""
        return cls(*await asyncio.open_unix_connection(sock=sock))

    def send(self, message: Any) -> None:
        """Write a dataclass; nobody waits for its arrival."""
        if not self._writer.is_closing():
            raw = encode(message)
            self._writer.write(_LENGTH.pack(len(raw)) + raw)

    async def receive(self, kind: type[T]) -> T | None:
        """Return the next message, or None when the other process is gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return decode(kind, await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        """Close this end, after what was sent before."""
        self._writer.close()
