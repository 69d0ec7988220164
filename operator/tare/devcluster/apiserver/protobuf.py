"""The binary bodies of some kubectl commands: `create namespace`, `auth can-i` and the like.

kubectl sends those in protobuf and offers no other form, so they are decoded here by a table of
field numbers. Answers are JSON, which every client accepts beside it. Other kinds get 415.
https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding ; the numbers are
those of `generated.proto` in k8s.io/api and k8s.io/apimachinery.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from tare.devcluster.apiserver.errors import bad_request, unsupported_media_type

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document

__all__ = ["MEDIA_TYPE", "decode"]

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_CONTINUED: Final = 0x80


class _Type(Enum):
    """Types of fields."""

    TEXT = auto()
    FLAG = auto()
    TEXTS = auto()
    """A map of texts."""
    BLOBS = auto()
    """A map of bytes, base64 in JSON."""


_Fields = Mapping[int, tuple[str, "_Type | _Fields"]]

_METADATA: Final[_Fields] = {
    1: ("name", _Type.TEXT),
    2: ("generateName", _Type.TEXT),
    3: ("namespace", _Type.TEXT),
    11: ("labels", _Type.TEXTS),
    12: ("annotations", _Type.TEXTS),
}
_TYPE_META: Final[_Fields] = {1: ("apiVersion", _Type.TEXT), 2: ("kind", _Type.TEXT)}
_ATTRIBUTES: Final[_Fields] = {
    1: ("namespace", _Type.TEXT),
    2: ("verb", _Type.TEXT),
    3: ("group", _Type.TEXT),
    5: ("resource", _Type.TEXT),
    6: ("subresource", _Type.TEXT),
    7: ("name", _Type.TEXT),
}
_KINDS: Final[Mapping[str, _Fields]] = {
    "SelfSubjectAccessReview": {2: ("spec", {1: ("resourceAttributes", _ATTRIBUTES)})},
    "Namespace": {1: ("metadata", _METADATA)},
    "ServiceAccount": {1: ("metadata", _METADATA)},
    "ConfigMap": {
        1: ("metadata", _METADATA),
        2: ("data", _Type.TEXTS),
        3: ("binaryData", _Type.BLOBS),
        4: ("immutable", _Type.FLAG),
    },
    "Secret": {
        1: ("metadata", _METADATA),
        2: ("data", _Type.BLOBS),
        3: ("type", _Type.TEXT),
        4: ("stringData", _Type.TEXTS),
        5: ("immutable", _Type.FLAG),
    },
}


def decode(raw: bytes) -> Document:
    """Decode a body; 415 for a kind that is not in the table."""
    if not raw.startswith(_MAGIC):
        raise bad_request("the body is not Kubernetes protobuf: its first four bytes are wrong")
    envelope = dict(_split(raw[len(_MAGIC) :]))
    kind = _message(bytes(envelope.get(1, b"")), _TYPE_META)
    fields = _KINDS.get(kind.get("kind", ""))
    if fields is None:
        raise unsupported_media_type(["application/json", "application/yaml"])
    return {**kind, **_message(bytes(envelope.get(2, b"")), fields)}


def _message(raw: bytes, fields: _Fields) -> Document:
    document: Document = {}
    for number, value in _split(raw):
        if number not in fields:
            continue
        name, kind = fields[number]
        match kind:
            case _Type.FLAG:
                document[name] = bool(value)
            case _Type.TEXT:
                if value:
                    document[name] = _text(value)
            case _Type.TEXTS | _Type.BLOBS:
                document.setdefault(name, {}).update(_entry(value, kind))
            case _:
                document[name] = _message(bytes(value), kind)
    return document


def _entry(raw: Any, kind: _Type) -> dict[str, str]:
    entry = dict(_split(raw))
    value = entry.get(2, b"")
    shown = base64.b64encode(value).decode() if kind is _Type.BLOBS else _text(value)
    return {_text(entry.get(1, b"")): shown}


def _text(value: Any) -> str:
    return bytes(value).decode()


def _split(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: number, and bytes or an integer."""
    position = 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        match tag & 7:
            case 0:
                value, position = _varint(raw, position)
                yield tag >> 3, value
            case 2:
                length, position = _varint(raw, position)
                yield tag >> 3, raw[position : position + length]
                position += length
            case wire_type:
                raise bad_request(f"the body is not Kubernetes protobuf: wire type {wire_type}")


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(raw):
            raise bad_request("the body is not Kubernetes protobuf: it ends early")
        byte = raw[position]
        position += 1
        value |= (byte & ~_CONTINUED) << shift
        if byte < _CONTINUED:
            return value, position
        shift += 7
