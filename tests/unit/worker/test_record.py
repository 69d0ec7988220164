from __future__ import annotations

from array import array

import pytest

from tare.worker.record import Record, Status


def _streamed(**more: object) -> Record:
    record = Record(number=0, entry=0, due=50, sent=100, streamed=True, status=Status.OK)
    for name, value in more.items():
        setattr(record, name, value)
    return record


def test_a_streamed_request_ends_with_its_last_text() -> None:
    record = _streamed(first_text=200, last_text=300, closed=900, output_tokens=3)
    assert record.time_to_first_token == 100
    assert record.request_latency == 200
    assert record.request_latency_from_due == 250
    assert record.time_per_output_token == 50


@pytest.mark.parametrize(("last_text", "tokens"), [(300, 1), (300, 0), (300, None), (200, 200)])
def test_no_pace_without_two_tokens_at_two_moments(last_text: int, tokens: int | None) -> None:
    record = _streamed(first_text=200, last_text=last_text, output_tokens=tokens)
    assert record.time_per_output_token is None


def test_a_stream_without_text_has_no_latency() -> None:
    record = _streamed(closed=900)
    assert record.request_latency is None
    assert record.empty_output


@pytest.mark.parametrize(("moment", "tokens"), [(199, 0), (200, 4), (249, 4), (250, 8), (300, 12)])
def test_tokens_arrive_with_their_chunks(moment: int, tokens: int) -> None:
    record = _streamed(
        first_text=200, last_text=300, gaps=array("q", [50, 50]), chunks=3, output_tokens=12
    )
    assert record.tokens_until(moment) == tokens


def test_an_answer_in_one_piece_arrives_at_its_end() -> None:
    record = Record(number=0, entry=0, sent=100, closed=300, chunks=1, output_tokens=7)
    assert (record.tokens_until(299), record.tokens_until(300)) == (0, 7)
