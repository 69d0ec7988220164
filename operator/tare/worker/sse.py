"""Event streams, byte by byte: what the HTML standard says, nothing about models.

Only `data` is kept: names, ids, retry times and comments of events carry nothing that a
measurement uses. The parser works on bytes, so that a character cut between two reads is never
seen in half, and it looks at each byte a fixed number of times, however long a line is.
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

__all__ = ["EventStream"]

_BOM = b"\xef\xbb\xbf"
_FIRST = b"data: "
_BETWEEN = b"\n\ndata: "
_LAST = b"\n\n"


class EventStream:
    """Cuts a stream of bytes into the data of its events.

    An event that the stream's end leaves without its blank line is dropped, as the standard asks.
    """

    __slots__ = ("_data", "_line", "_skip_line_feed", "_started")

    def __init__(self, *, started: bool = False) -> None:
        """Begin a stream, or go on behind whole events that were `started` with elsewhere."""
        self._data: list[bytes] = []
        """Data lines of the event under way."""
        self._line: list[bytes] = []
        """Pieces of the line under way; joined once, when it ends."""
        self._skip_line_feed = False
        """The last read ended with CR: a LF that follows belongs to it."""
        self._started = started

    @property
    def idle(self) -> bool:
        """Whether the next read begins a line of a new event."""
        return not (self._line or self._data or self._skip_line_feed)

    def feed(self, read: bytes) -> list[bytes]:
        """Return the data of each event that ends in this read."""
        if read.startswith(_FIRST) and not (self._line or self._data):
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
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b"data:"):
                data.append(line[5:])
            elif line == b"data":
                data.append(b"")
        return events
