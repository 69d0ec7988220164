"""The body of an answer that is read at its end: one document, or the words of a refusal.

Servers that answer in one piece, or fail, do not always say so in the type of the content, and
proxies call streams JSON: what a body begins with tells them apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tare.worker.failure import shorten
from tare.worker.meaning import BROKEN, document_of, error_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.worker.http import Headers

__all__ = ["Body", "foreign_coding", "words_of"]

_MOST_OF_A_REFUSAL: Final = 16 * 1024
_IDENTITY: Final = (b"", b"identity")
_BOM: Final = b"\xef\xbb\xbf"
_STREAM: Final = re.compile(rb"(?:data|event|id|retry)?:")
_STREAM_BYTES: Final = 6
"""As many, without what is blank before them, tell what it is."""


class Body:
    """Pieces of a body."""

    __slots__ = ("_headers", "_raw", "_refusal", "_undecided")

    def __init__(self, headers: Headers, *, success: bool, streaming: bool) -> None:
        """Begin with nothing; `streaming` says whether it may be an event stream after all."""
        self._headers = dict(headers)
        self._raw = bytearray()
        self._refusal = not success
        self._undecided = success and streaming

    def add(self, pieces: Sequence[bytes]) -> bytes:
        """Keep pieces; return everything so far as soon as it is the beginning of a stream."""
        for piece in pieces:
            self._raw += piece
        if self._refusal:
            del self._raw[_MOST_OF_A_REFUSAL:]
        elif self._undecided:
            beginning = self._raw.removeprefix(_BOM).lstrip()
            self._undecided = len(beginning) < _STREAM_BYTES
            if not self._undecided and _STREAM.match(beginning):
                return bytes(self._raw)
        return b""

    @property
    def document(self) -> bytes:
        """All of it."""
        return bytes(self._raw)

    @property
    def refusal(self) -> str:
        """Why a request was refused, in the server's own words, and when to ask again."""
        words = foreign_coding(self._headers) or words_of(self.document)
        retry = self._headers.get(b"retry-after", b"").decode("latin-1")
        return shorten(words) + (f" (Retry-After: {retry})" if retry else "")


def foreign_coding(headers: Headers) -> str:
    """Say that a body cannot be read since it is coded although only identity was accepted."""
    coding = headers.get(b"content-encoding", b"").lower()
    if coding in _IDENTITY:
        return ""
    return f"content-encoding {coding.decode('latin-1')}, although only identity was accepted"


def words_of(raw: bytes) -> str:
    """Return what a server says of a failure, whatever shape it has."""
    plain = raw.decode(errors="replace").strip()
    try:
        return error_of(document_of(raw)) or plain
    except BROKEN:
        return plain
