"""Event streams, byte by byte: what the HTML standard says, nothing about models.

Only `data` is kept, and whether the event is called `error`: other names, ids, retry times and
comments carry nothing that a measurement uses. The parser works on bytes, so that a character cut
between two reads is never seen in half, and it looks at each byte a fixed number of times, however
long a line is.
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

__all__ = ["ErrorEvent", "EventStream"]

_BOM = b"\xef\xbb\xbf"
_FIRST = b"data: "
_BETWEEN = b"\n\ndata: "
_LAST = b"\n\n"
_ERROR_LINES = (b"event: error", b"event:error")
_FIELDS = (b":", b"data", b"event", b"id", b"retry")


class ErrorEvent(bytes):
    """Data of an event whose name says that it is an error."""

    __slots__ = ()


class EventStream:
    """Cuts a stream of bytes into the data of its events.

    An event that the stream's end leaves without its blank line is dropped, as the standard asks.
    """

    __slots__ = ("_data", "_error", "_line", "_skip_line_feed", "_started", "_strange")

    def __init__(self, *, started: bool = False) -> None:
        """Begin a stream, or go on behind whole events that were `started` with elsewhere."""
        self._data: list[bytes] = []
        """Data lines of the event under way."""
        self._error = False
        """It is called `error`."""
        self._line: list[bytes] = []
        """Pieces of the line under way; joined once, when it ends."""
        self._skip_line_feed = False
        """The last read ended with CR: a LF that follows belongs to it."""
        self._started = started
        self._strange = b""

    @property
    def idle(self) -> bool:
        """Whether the next read begins a line of a new event."""
        return not (self._line or self._data or self._error or self._skip_line_feed)

    @property
    def strange(self) -> bytes:
        """The first line that belongs to no event stream, such as that of a plain document."""
        last = b"".join(self._line)
        return self._strange or (b"" if last.startswith(_FIELDS) else last)

    def feed(self, read: bytes) -> list[bytes]:
        """Return the data of each event that ends in this read."""
        if read.startswith(_FIRST) and not (self._line or self._data or self._error):
            events = read[len(_FIRST) : -len(_LAST)].split(_BETWEEN)
            # The usual read: whole events of one line each, nothing else; all line feeds are known.
            if read.count(b"\n") == 2 * len(events) and read.endswith(_LAST) and b"\r" not in read:
                self._started, self._skip_line_feed = True, False
                return events
        if self._skip_line_feed and read:
            self._skip_line_feed = False
            read = read.removeprefix(b"\n")
        if b"\r" in read:
            self._skip_line_feed = read.endswith(b"\r")
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = read.split(b"\n")
        rest = lines.pop()
        if not lines:
            if rest:
                self._line.append(rest)
            return lines
        if self._line:
            self._line.append(lines[0])
            lines[0] = b"".join(self._line)
            self._line.clear()
        if rest:
            self._line.append(rest)
        if not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(_BOM)
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    event = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append(ErrorEvent(event) if self._error else event)
                    data.clear()
                self._error = False
            elif line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b"data:"):
                data.append(line[5:])
            elif line == b"data":
                data.append(b"")
            elif line.startswith(b"event"):
                self._error = line in _ERROR_LINES
            elif not self._strange and not line.startswith(_FIELDS):
                self._strange = line
        return events
