"""The binary bodies of kubectl, byte by byte."""

from __future__ import annotations

import pytest

from tare.devcluster.apiserver.errors import ApiError
from tare.devcluster.apiserver.protobuf import decode


def field(number: int, value: bytes | str | int) -> bytes:
    """Encode one field; lengths above 127 take two bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    raw = value.encode() if isinstance(value, str) else value
    length = len(raw)
    head = [length] if length < 128 else [length & 127 | 128, length >> 7]
    return bytes([number << 3 | 2, *head]) + raw


def body(kind: str, raw: bytes) -> bytes:
    type_meta = field(1, "v1") + field(2, kind)
    return b"k8s\x00" + field(1, type_meta) + field(2, raw) + field(3, "") + field(4, "")


def test_a_namespace_is_read_from_its_metadata() -> None:
    labels = field(11, field(1, "team") + field(2, "perf"))
    metadata = field(1, "bench") + field(2, "") + labels

    assert decode(body("Namespace", field(1, metadata) + field(2, b""))) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "bench", "labels": {"team": "perf"}},
    }


def test_a_secret_has_its_data_in_base64() -> None:
    entry = field(1, "token") + field(2, b"\x00abc")
    raw = field(1, field(1, "s")) + field(2, entry) + field(3, "Opaque") + field(5, 1)

    secret = decode(body("Secret", raw))

    assert secret["data"] == {"token": "AGFiYw=="}
    assert secret["type"] == "Opaque"
    assert secret["immutable"] is True


def test_a_long_text_is_read_whole() -> None:
    entry = field(1, "k") + field(2, "x" * 300)

    config_map = decode(body("ConfigMap", field(1, field(1, "c")) + field(2, entry)))

    assert config_map["data"] == {"k": "x" * 300}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"nothing", 400),
        (b"k8s\x00\x0a", 400),
        (b"k8s\x00\x0d1234", 400),
        (body("Deployment", b""), 415),
    ],
)
def test_other_bodies_are_refused(raw: bytes, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        decode(raw)

    assert refused.value.code == code
