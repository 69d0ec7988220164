from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.results.chunks import DATA_KEY, MAX_PART, DamagedError, join, split


def parts_of(content: bytes) -> list[dict[str, Any]]:
    metadata = ({"namespace": "bench", "name": f"q-p{n}"} for n in itertools.count())
    return split(content, metadata)


LARGE = random.Random(7).randbytes(2_000_000)  # noqa: S311 - incompressible, not secret


@given(st.binary(max_size=5000))
def test_what_was_split_is_put_together_again(content: bytes) -> None:
    assert join(parts_of(content)) == content


def test_a_large_document_becomes_parts_that_each_fit_into_a_config_map() -> None:
    parts = parts_of(LARGE)
    assert [part["metadata"]["name"] for part in parts] == [f"q-p{n}" for n in range(len(parts))]
    assert len(parts) == 4
    assert all(len(json.dumps(part)) <= MAX_PART for part in parts)
    assert join(reversed(parts)) == LARGE


def test_the_same_content_gives_the_same_config_maps() -> None:
    assert parts_of(b"x" * 1000) == parts_of(b"x" * 1000)


def test_a_missing_part_is_noticed() -> None:
    parts = parts_of(LARGE)
    del parts[1]
    with pytest.raises(DamagedError, match=r"\['0', '2', '3'\] of 4"):
        join(parts)


def test_no_part_at_all_is_noticed() -> None:
    with pytest.raises(DamagedError, match="no part"):
        join([])


def test_parts_of_two_versions_do_not_pass_for_one_document() -> None:
    other = bytes(reversed(LARGE))
    with pytest.raises(DamagedError):
        join([*parts_of(LARGE)[:2], *parts_of(other)[2:]])


def test_a_changed_digest_is_noticed() -> None:
    [part] = parts_of(b"abc")
    part["data"]["sha256"] = "0" * 64
    with pytest.raises(DamagedError, match="digest"):
        join([part])


@pytest.mark.parametrize("data", ["H4sI", "no base64!", "aGVsbG8="])
def test_data_that_is_no_gzip_is_noticed(data: str) -> None:
    [part] = parts_of(b"abc")
    part["binaryData"][DATA_KEY] = data
    with pytest.raises(DamagedError, match="cannot be read"):
        join([part])


def test_a_config_map_of_somebody_else_is_no_part() -> None:
    with pytest.raises(DamagedError):
        join([{"metadata": {"name": "q"}, "data": {"a": "b"}}])
