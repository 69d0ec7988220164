"""Documents of any size as ConfigMaps: gzip, cut into parts, put together and verified again.

A ConfigMap holds at most 1 MiB, and every list of ConfigMaps carries all of them; parts of at most
700 KiB leave room for the object around the data. The text of a part's data is base64 of gzip, so
that results can be read without Tare:

    kubectl get configmap NAME -o go-template='{{index .binaryData "part.gz"}}' | base64 -d | zcat
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tare.kube.port import Document

__all__ = ["DATA_KEY", "MAX_PART", "DamagedError", "digest_of", "join", "split"]

MAX_PART = 700 * 1024
"""Bytes of one ConfigMap as JSON."""
DATA_KEY = "part.gz"

_RAW = 510 * 1024
"""Compressed bytes in one part; base64 makes 680 KiB of them."""
_LEVEL = 4
"""A tenth of the time of level 9 for a twentieth more bytes: it runs in the operator's loop."""
_DIGEST, _PART, _PARTS = "sha256", "part", "parts"


class DamagedError(ValueError):
    """Parts are missing, or were changed: they do not make the document that was stored."""


def split(content: bytes, metadata: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Cut `content` into ConfigMaps with the given `metadata` in turn; unused ones are left over.

    The same content gives the same ConfigMaps. Each part carries the digest of the whole, so that
    parts of two versions never pass for one document.
    """
    packed = gzip.compress(content, compresslevel=_LEVEL, mtime=0)
    digest = hashlib.sha256(content).hexdigest()
    pieces = [packed[start : start + _RAW] for start in range(0, len(packed), _RAW)]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": dict(meta),
            "data": {_DIGEST: digest, _PART: str(number), _PARTS: str(len(pieces))},
            "binaryData": {DATA_KEY: base64.b64encode(piece).decode()},
        }
        for number, (piece, meta) in enumerate(zip(pieces, metadata, strict=False))
    ]


def digest_of(part: Mapping[str, Any]) -> str:
    """Return the digest of the whole document that a part belongs to; empty for a foreign one."""
    return str((part.get("data") or {}).get(_DIGEST, ""))


def join(parts: Iterable[Mapping[str, Any]]) -> bytes:
    """Put the parts of one document together, in whatever order they are given.

    Raises:
        DamagedError: a part is missing, belongs to another version, or was changed.
    """
    ordered = sorted(parts, key=lambda part: int((part.get("data") or {}).get(_PART, -1)))
    if not ordered:
        raise DamagedError("no part is there")
    expected = ordered[0].get("data") or {}
    found = [(part.get("data") or {}).get(_PART) for part in ordered]
    if found != [str(number) for number in range(int(expected.get(_PARTS, 0)))]:
        raise DamagedError(f"parts {found} of {expected.get(_PARTS)} are there")
    try:
        packed = b"".join(base64.b64decode(part["binaryData"][DATA_KEY]) for part in ordered)
        content = gzip.decompress(packed)
    except (KeyError, ValueError, OSError, EOFError, zlib.error) as error:
        raise DamagedError(f"a part cannot be read: {error!r}") from error
    digest = hashlib.sha256(content).hexdigest()
    if any(digest_of(part) != digest for part in ordered):
        raise DamagedError("the parts do not match their digest")
    return content
