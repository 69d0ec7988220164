"""Answers as servers and gateways really write them, beside what the bug cases have already.

Each is read as a stream of whole events; what the record must say follows from measurement.md:
HTTP 200 is not success, events are not tokens, and text is whatever the model wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.events import DONE, chunk, content, event, finish, role, usage
from tare.worker.answer import Answer
from tare.worker.failure import CLOSED, Failure
from tare.worker.record import Record, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

SSE = {b"content-type": b"text/event-stream"}
JSON = {b"content-type": b"application/json"}
COMPLETION = orjson.dumps(
    {
        "choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
)


class _Reading:
    """An answer with one read each nanosecond from 2000 on."""

    def __init__(self, *, status: int = 200, headers: Mapping[bytes, bytes] = SSE) -> None:
        self.text: list[str] = []
        self.done = 0
        self.record = Record(number=0, entry=0)
        self.answer = Answer(self.record, streaming=True, done=self._count, text=self.text)
        self.answer.on_sent(1000)
        self.answer.on_head(2000, status, headers)

    def take(self, *reads: bytes) -> _Reading:
        for at, read in enumerate(reads, start=2000):
            self.answer.on_data(at, [read])
        return self

    def end(self) -> Record:
        self.answer.on_end(2999)
        assert self.done == 1
        return self.record

    def _count(self, _: Answer) -> None:
        self.done += 1


def read(*reads: bytes, **head: Any) -> Record:
    return _Reading(**head).take(*reads).end()


def choice(delta: Any, reason: Any = None, *, index: int = 0, **more: Any) -> bytes:
    return event({"choices": [{"index": index, "delta": delta, "finish_reason": reason, **more}]})


@pytest.mark.parametrize(
    "broken",
    [
        choice({"content": ""}, "error"),
        event({"error": {"message": "gone"}, "choices": [{"delta": {}, "finish_reason": "stop"}]}),
        choice({}, "stop", error={"message": "gone"}),
        b'data: [{"error":{"message":"gone"}}]\n\n',
        event({"error": [{"message": "gone"}]}),
        event({"detail": "gone"}),
        b"event: error\ndata: gone\n\n",
        b'event:error\ndata: {"message":"gone"}\n\n',
        b'data: {"odd":1}\nevent: error\n\n',
    ],
)
def test_an_error_is_a_failure_in_whichever_place_it_is_said(broken: bytes) -> None:
    record = read(role(), content("a"), broken, DONE)
    assert (record.status, record.error_kind) == (Status.ERROR, "stream_error")
    assert any(word in record.error_message for word in ("gone", "error", "odd"))


def test_the_name_of_an_event_is_that_of_one_event() -> None:
    lines = [b"event: error\n", b"\n", content("a"), b"event: message\n", finish(), DONE]
    assert read(*lines).status is Status.OK
    assert read(b"event: error\n", content("a"), finish(), DONE).error_kind == "stream_error"


@pytest.mark.parametrize(
    "stream",
    [
        [usage(5, 0), content("a")],
        [content("a"), usage(5, 1), content("b")],
        [content("a"), finish(), content("b")],
        [choice({"content": "a"}, ""), choice({"content": "b"}, "")],
        [choice({"content": "a"}, False)],
    ],
)
def test_text_that_follows_an_end_takes_it_back(stream: list[bytes]) -> None:
    """A usage in the beginning, or an empty reason in each event, ends nothing."""
    assert read(*stream).status is Status.INCOMPLETE
    assert read(*stream, finish()).status is Status.OK
    assert read(*stream, DONE).status is Status.OK


A, B = choice({"content": "a"}), choice({"content": "b"}, index=1)


@pytest.mark.parametrize("first", [[A, B], [B, A], [role(), A, B], [B, role(), A]])
def test_of_several_choices_each_has_to_finish(first: list[bytes]) -> None:
    ends = [finish(), choice({}, "stop", index=1)]
    for end in ends:
        assert read(*first, end).status is Status.INCOMPLETE
    assert read(*first, *ends).status is Status.OK
    assert read(*first, *reversed(ends)).status is Status.OK
    assert read(*first, usage(5, 2)).status is Status.OK


def test_choices_may_be_numbered_from_any_index() -> None:
    assert read(B, choice({}, "stop", index=1)).status is Status.OK


@pytest.mark.parametrize(
    "deltas",
    [
        [{"refusal": "I can"}, {"refusal": "not"}],
        [{"function_call": {"name": "f"}}, {"function_call": {"arguments": "{}"}}],
        [{"content": [{"type": "text", "text": "a"}]}, {"content": ["b"]}],
    ],
)
def test_what_the_model_wrote_is_text_for_whatever_it_is(deltas: list[Any]) -> None:
    record = read(role(), *map(chunk, deltas), finish(), DONE)
    assert (record.chunks, record.first_text, record.first_output) == (2, 2001, 2001)


def test_parts_of_content_are_joined_and_their_thoughts_are_reasoning() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    empty = [{"type": "text", "text": ""}]
    reading = _Reading().take(*(chunk({"content": c}) for c in (empty, [thought], parts)), finish())
    record = reading.end()
    assert "".join(reading.text) == "ab"
    assert (record.chunks, record.first_text, record.first_output) == (2, 2001, 2002)


@pytest.mark.parametrize("odd", [7, {"text": "a"}, [7], [{"text": 7}]])
def test_content_that_is_neither_text_nor_parts_is_broken(odd: Any) -> None:
    assert read(chunk({"content": odd}), finish(), DONE).error_kind == "bad_chunk"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xe6\x97", "\ufffd"),
        (rb"\ud83d", "\ufffd"),
        (rb"\ude00", "\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d \ud83dx", "\\ud83d \ufffdx"),
    ],
)
def test_half_a_character_is_replaced_and_its_event_counts(raw: bytes, text: str) -> None:
    """A server that cuts its text by bytes has answered nevertheless."""
    reading = _Reading().take(content("@").replace(b"@", raw), finish(), DONE)
    assert reading.end().status is Status.OK
    assert "".join(reading.text) == text


@pytest.mark.parametrize("broken", [b"\0", b"\n", rb"\x", rb"\u12", b'"'])
def test_what_is_no_json_for_another_reason_stays_broken(broken: bytes) -> None:
    assert read(content("@").replace(b"@", broken), finish()).error_kind == "bad_chunk"


@pytest.mark.parametrize("last", [b"data: [DONE] \n\n", b"data:  [DONE]\n\n", b"data:   \n\n"])
def test_blanks_around_data_mean_nothing(last: bytes) -> None:
    record = read(content("a"), finish(), last)
    assert (record.status, record.missing_done) == (Status.OK, b"[DONE]" not in last)


def test_a_later_usage_without_details_takes_no_details_back() -> None:
    more = {
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    less = {"prompt_tokens_details": {"audio_tokens": 0}, "completion_tokens_details": {"x": 0}}
    record = read(content("a"), usage(5, 3, **more), usage(5, 3, **less), DONE)
    assert (record.cached_tokens, record.reasoning_tokens) == (4, 2)


@pytest.mark.parametrize("kind", [b"", b"text/plain", b"application/x-ndjson"])
def test_b20_an_answer_in_one_piece_is_one_whatever_its_type(kind: bytes) -> None:
    record = read(COMPLETION[:3], COMPLETION[3:], headers={b"content-type": kind} if kind else {})
    assert (record.status, record.streamed, record.output_tokens) == (Status.OK, False, 2)


@pytest.mark.parametrize("kind", [b"", b"text/plain", b"application/json"])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\r\n", b": ping\n\n", b"event: x\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_is_one_whatever_its_type(kind: bytes, before: bytes, size: int) -> None:
    whole = before + content("a") + content("b") + finish() + usage(5, 2) + DONE
    reads = [whole[i : i + size] for i in range(0, len(whole), size)]
    record = read(*reads, headers={b"content-type": kind})
    assert (record.status, record.streamed, record.chunks) == (Status.OK, True, 2)
    assert not record.missing_done


def test_a_page_instead_of_an_answer_is_shown() -> None:
    record = read(b"<html>log in</html>", headers={b"content-type": b"text/html"})
    assert record.error_kind == "bad_chunk"
    assert "log in" in record.error_message


@pytest.mark.parametrize("body", [b'{"error":{"message":"boom"}}', b'{"error":"boom"}\n', b"boom"])
def test_b37_what_came_instead_of_events_is_shown(body: bytes) -> None:
    record = read(body)
    assert (record.error_kind, record.error_message) == (
        "empty_stream",
        "200 without content: boom",
    )


def test_the_message_of_an_empty_answer_has_its_status() -> None:
    assert read(status=204, headers={}).error_message == "204 without content"


@pytest.mark.parametrize("headers", [SSE, JSON])
def test_a_body_in_a_coding_that_was_not_asked_for_is_no_answer(
    headers: Mapping[bytes, bytes],
) -> None:
    record = read(b"\x1f\x8b\x08", headers={**headers, b"content-encoding": b"gzip"})
    assert (record.status, record.error_kind) == (Status.ERROR, "protocol")
    assert "gzip" in record.error_message
    plain = read(content("a"), finish(), headers={**SSE, b"content-encoding": b"identity"})
    assert plain.status is Status.OK


def test_a_refusal_in_such_a_coding_keeps_its_status() -> None:
    record = read(b"\x1f\x8b", status=503, headers={b"content-encoding": b"gzip"})
    assert record.error_kind == "http_503"
    assert "gzip" in record.error_message


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.CANCELLED])
def test_a_refusal_whose_body_never_ends_is_a_refusal(status: Status) -> None:
    reading = _Reading(status=500, headers=JSON).take(b'{"error":"boom"}')
    reading.answer.give_up(3000, status, Failure("x", ""))
    record = reading.record
    assert (record.status, record.error_kind) == (Status.ERROR, "http_500")
    assert record.error_message == "boom"


def test_choices_in_one_piece_have_no_gaps_between_them() -> None:
    choices = [{"index": i, "message": {"content": "a"}, "finish_reason": "stop"} for i in (0, 1)]
    record = read(orjson.dumps({"choices": choices}), headers=JSON)
    assert (record.status, list(record.gaps)) == (Status.OK, [])


def test_a_body_that_broke_off_is_no_answer() -> None:
    reading = _Reading(headers=JSON).take(COMPLETION)
    reading.answer.on_failure(2999, Failure(CLOSED, "closed"))
    assert reading.record.status is Status.INCOMPLETE
