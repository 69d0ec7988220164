from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.worker.sse import EventStream

EVENTS = [b'{"a": 1}', "日本€🙂".encode(), b"two\nlines", b"", b"[DONE]"]
STREAM = (
    b"\xef\xbb\xbfdata: "
    + EVENTS[0]
    + b"\n\n: comment\n\nid: 7\nevent: x\nretry: 10\ndata:"
    + EVENTS[1]
    + b"\r\n\r\ndata: two\rdata: lines\r\rdata\n\n\n\ndata: [DONE]\n\n"
)


def _read(reads: list[bytes]) -> list[bytes]:
    stream = EventStream()
    return [event for read in reads for event in stream.feed(read)]


def test_all_line_ends_and_fields_of_the_standard_are_read() -> None:
    assert _read([STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_the_events_do_not_depend_on_where_reads_end(cuts: list[int]) -> None:
    edges = sorted({0, len(STREAM), *cuts})
    assert _read([STREAM[a:b] for a, b in pairwise(edges)]) == EVENTS


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_an_event_is_out_as_soon_as_its_blank_line_is(end: bytes) -> None:
    stream = EventStream()
    assert stream.feed(b"data: a" + end) == []
    assert stream.feed(end[:1]) == [b"a"]


def test_one_space_after_the_colon_is_no_data_and_a_second_one_is() -> None:
    assert _read([b"data:  x \n\n"]) == [b" x "]


def test_an_event_without_its_blank_line_is_dropped() -> None:
    assert _read([b"data: whole\n\ndata: half\n"]) == [b"whole"]


def test_a_field_whose_name_only_begins_with_data_is_another_field() -> None:
    assert _read([b"database: x\ndata : y\n\n"]) == []


def test_a_line_in_a_hundred_thousand_pieces_is_one_event() -> None:
    stream = EventStream()
    assert stream.feed(b"data: ") == []
    assert all(stream.feed(b"xyz") == [] for _ in range(100_000))
    assert stream.feed(b"\n\n") == [b"xyz" * 100_000]
