from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.events import DONE, chunk, content, event, finish, normal, role, usage, wire
from tare.worker.answer import Answer
from tare.worker.failure import CLOSED, RESET, Failure
from tare.worker.record import Record, Status, TokenSource
from tare.worker.template import Patterns

if TYPE_CHECKING:
    from collections.abc import Mapping

SSE = {b"content-type": b"text/event-stream; charset=utf-8"}
JSON = {b"content-type": b"application/json"}

WHOLE = wire(normal()).replace(b'"a"', '"é🙂"'.encode()).replace(b"\n", b"\r\n")


def _answer(
    *, streaming: bool = True, patterns: Patterns | None = None
) -> tuple[Answer, list[Record]]:
    done: list[Record] = []
    record = Record(number=0, entry=0, due=1000)
    answer = Answer(
        record, streaming=streaming, done=lambda a: done.append(a.record), patterns=patterns
    )
    answer.on_sent(1000)
    return answer, done


def _read(
    *reads: bytes,
    status: int = 200,
    headers: Mapping[bytes, bytes] = SSE,
    end: Failure | None = None,
    patterns: Patterns | None = None,
) -> Record:
    """An answer with one read each nanosecond from 2000 on."""
    answer, done = _answer(patterns=patterns)
    answer.on_head(2000, status, headers)
    for at, read in enumerate(reads, start=2000):
        answer.on_data(at, [read])
    if end is None:
        answer.on_end(2999)
    else:
        answer.on_failure(2999, end)
    (record,) = done
    return record


def _values(record: Record) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


@given(st.lists(st.integers(0, len(WHOLE)), max_size=40))
def test_the_record_does_not_depend_on_where_reads_end(cuts: list[int]) -> None:
    answer, done = _answer()
    answer.on_head(2000, 200, SSE)
    for a, b in pairwise(sorted({0, len(WHOLE), *cuts})):
        answer.on_data(2000, [WHOLE[a:b]])
    answer.on_end(2000)
    whole, done_whole = _answer()
    whole.on_head(2000, 200, SSE)
    whole.on_data(2000, [WHOLE])
    whole.on_end(2000)
    assert _values(done[0]) == _values(done_whole[0])
    assert done[0].status is Status.OK
    assert done[0].chunks == 3


def test_a_reset_after_the_finish_reason_loses_nothing() -> None:
    record = _read(content("a"), finish(), usage(5, 1), end=Failure(RESET))
    assert record.status is Status.OK
    assert record.missing_done


def test_an_error_event_is_a_failure_although_done_follows() -> None:
    error = {"error": {"message": "CUDA OOM", "type": "InternalServerError", "code": 500}}
    record = _read(event(error), DONE)
    assert (record.status, record.error_kind) == (Status.ERROR, "stream_error")
    assert record.error_message == "CUDA OOM"
    assert record.time_to_first_token is None


def test_an_error_after_text_is_a_failure_too() -> None:
    record = _read(content("a"), event({"error": "engine died"}), finish(), DONE)
    assert (record.error_kind, record.error_message) == ("stream_error", "engine died")


@pytest.mark.parametrize(
    "error",
    [
        {"message": "no route", "type": "Not Found", "code": 404},
        {"object": "error", "message": "no route", "code": 404},
    ],
)
def test_an_error_may_be_flat(error: dict[str, Any]) -> None:
    record = _read(event(error))
    assert (record.error_kind, record.error_message) == ("stream_error", "no route")


def test_an_abort_by_the_engine_is_a_failure_although_all_looks_well() -> None:
    choice = {"index": 0, "text": "", "finish_reason": "abort"}
    record = _read(content("a"), event({"choices": [choice]}), DONE)
    assert (record.status, record.error_kind) == (Status.ERROR, "abort")


def test_a_stream_that_ends_in_the_middle_is_incomplete() -> None:
    record = _read(*[content("x")] * 10)
    assert (record.status, record.error_kind) == (Status.INCOMPLETE, "truncated")
    assert record.output_tokens == 10


@pytest.mark.parametrize(("kind", "expected"), [(CLOSED, "truncated"), (RESET, "reset")])
def test_a_connection_that_fails_in_the_middle_is_incomplete(kind: str, expected: str) -> None:
    record = _read(role(), content("x"), end=Failure(kind))
    assert (record.status, record.error_kind) == (Status.INCOMPLETE, expected)


@pytest.mark.parametrize(
    "broken",
    [
        b'data: {"choices":[{"delta":{"content":"a"\n\n',
        b"data: 7\n\n",
        event({"choices": ["a"]}),
        event({"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": "2"}}),
        event({"choices": [], "usage": {"completion_tokens": -2}}),
    ],
)
def test_an_event_that_is_no_completion_fails_the_request(broken: bytes) -> None:
    record = _read(content("a"), broken, content("b"), finish(), DONE)
    assert (record.status, record.error_kind) == (Status.ERROR, "bad_chunk")


def test_a_role_and_done_are_no_content() -> None:
    assert _read(role(), DONE).error_kind == "empty_stream"


def test_completions_text_is_text() -> None:
    choice = {"index": 0, "text": "a", "finish_reason": None}
    record = _read(event({"choices": [choice]}), usage(5, 1), DONE)
    assert (record.status, record.chunks) == (Status.OK, 1)
    assert record.time_to_first_token == 1000


def test_cached_tokens_come_with_the_last_usage_and_stay() -> None:
    record = _read(
        content("a"),
        usage(934, 6, prompt_tokens_details={"cached_tokens": 928}),
        usage(934, 6),
        DONE,
    )
    assert (record.prompt_tokens, record.cached_tokens) == (934, 928)


def test_a_usage_of_zero_beside_text_is_not_believed() -> None:
    record = _read(content("a"), content("b"), usage(5, 0), DONE)
    assert (record.output_tokens, record.token_source) == (2, TokenSource.CHUNKS)


def test_chunks_of_one_read_have_no_gap_between_them() -> None:
    record = _read(content("a") + content("b"), content("c"), finish(), DONE)
    assert list(record.gaps) == [0, 1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"too long","code":400}}', "too long"),
        (b'{"error":"Unauthorized"}', "Unauthorized"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"message":"Route not found"}', "Route not found"),
        (b"<html>bad gateway</html>", "<html>bad gateway</html>"),
        (b"[1]", "[1]"),
        (b"", ""),
    ],
)
def test_a_refusal_keeps_the_words_of_the_server(body: bytes, message: str) -> None:
    record = _read(body, status=400, headers=JSON)
    assert (record.status, record.error_kind) == (Status.ERROR, "http_400")
    assert record.error_message == message


def test_a_message_is_cut_to_a_kibibyte_between_characters() -> None:
    record = _read("é".encode() * 40_000, status=500, headers={})
    assert record.error_message == "é" * 512


def test_retry_after_is_noted() -> None:
    record = _read(b"slow down", status=429, headers={b"retry-after": b"1"})
    assert record.error_message == "slow down (Retry-After: 1)"


def test_a_redirect_is_a_failure() -> None:
    assert _read(b"", status=307, headers={b"location": b"/x"}).error_kind == "http_307"


def test_an_answer_in_one_piece_has_a_latency_and_no_first_token() -> None:
    answer, done = _answer(streaming=False)
    body = {
        "choices": [{"message": {"content": "abc"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    }
    answer.on_head(2000, 200, JSON)
    answer.on_data(2500, [orjson.dumps(body)])
    answer.on_end(2500)
    (record,) = done
    assert (record.status, record.streamed) == (Status.OK, False)
    assert (record.request_latency, record.time_to_first_token) == (1500, None)
    assert not record.missing_done


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b'{"error":"x"}', "stream_error"), (b"<html>", "bad_chunk"), (b"{}", "empty_stream")],
)
def test_a_body_of_200_is_not_success_by_itself(body: bytes, kind: str) -> None:
    assert _read(body, headers=JSON).error_kind == kind


def test_no_answer_at_all_keeps_the_kind_of_its_failure() -> None:
    answer, done = _answer()
    answer.on_failure(2000, Failure(CLOSED, "connection closed by the server"))
    assert (done[0].status, done[0].error_kind) == (Status.ERROR, CLOSED)


def test_given_up_in_the_middle_keeps_what_had_come() -> None:
    answer, done = _answer()
    answer.on_head(2000, 200, SSE)
    answer.on_data(2000, [content("a")])
    answer.give_up(3000, Status.CANCELLED, Failure("stopped", "told to"))
    answer.on_end(4000)
    (record,) = done
    assert (record.status, record.closed, record.output_tokens) == (Status.CANCELLED, 3000, 1)


def test_given_up_after_its_end_is_ok() -> None:
    answer, done = _answer()
    answer.on_head(2000, 200, SSE)
    answer.on_data(2000, [content("a") + finish()])
    answer.give_up(3000, Status.TIMEOUT, Failure("request_timeout", ""))
    assert done[0].status is Status.OK


def test_a_second_attempt_does_not_move_the_beginning() -> None:
    answer, _ = _answer()
    answer.on_sent(1500)
    assert (answer.record.sent, answer.record.resent) == (1000, True)


def test_the_name_of_a_tool_is_text_and_its_id_is_not() -> None:
    call = {"index": 0, "id": "x", "function": {"arguments": ""}}
    named = {"index": 0, "function": {"name": "f", "arguments": ""}}
    record = _read(chunk({"tool_calls": [call]}), chunk({"tool_calls": [named]}), finish(), DONE)
    assert (record.chunks, record.first_text) == (1, 2001)


def _named(answer_id: str, *events: bytes) -> list[bytes]:
    return [data.replace(b'"id":"c"', b'"id":"%b"' % answer_id.encode()) for data in events]


STREAMS = [
    [role(), content("a"), content("b"), finish(), usage(5, 2), DONE],
    [role(), content("b"), content('"'), content("c"), finish("length"), usage(6, 3), DONE],
    [content("x"), content("y"), finish(), DONE],
    [role(), chunk({"reasoning": "a"}), chunk({"reasoning": "b"}), content("c"), finish(), DONE],
    [role(), content("a"), event({"error": "engine died"}), finish(), DONE],
    [role(), content("a"), chunk({}, "abort"), DONE],
    [role(), finish(), usage(5, 0, prompt_tokens_details={"cached_tokens": 4}), DONE],
    [role(), content("a"), content("b")],
]


@given(
    st.lists(st.sampled_from(STREAMS), max_size=5),
    st.sampled_from(STREAMS),
    st.lists(st.integers(1, 900), max_size=5),
)
def test_what_other_answers_have_taught_changes_no_record(
    earlier: list[list[bytes]], events: list[bytes], cuts: list[int]
) -> None:
    patterns = Patterns()
    for number, stream in enumerate(earlier):
        _read(*_named(f"chatcmpl-{number}", *stream), patterns=patterns)
    events = _named("chatcmpl-last", *events)
    assert _values(_read(*events, patterns=patterns)) == _values(_read(*events))
    whole = b"".join(events)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    reads = [whole[a:b] for a, b in pairwise(edges)]
    assert _values(_read(*reads, patterns=patterns)) == _values(_read(*reads))


def test_the_first_text_of_an_answer_is_recognised_by_those_of_others() -> None:
    patterns = Patterns()
    _read(*_named("one", *STREAMS[0]), patterns=patterns)
    record = _read(*_named("two", content("a"), content("b"), finish(), DONE), patterns=patterns)
    assert (record.first_event, record.first_text, record.first_output) == (2000, 2000, 2000)
    assert (record.chunks, list(record.gaps)) == (2, [1])


def test_reasoning_that_is_recognised_is_no_output() -> None:
    patterns = Patterns()
    thinking = [chunk({"reasoning": "a"}), chunk({"reasoning": "b"})]
    _read(*_named("one", *thinking, finish(), DONE), patterns=patterns)
    record = _read(*_named("two", *thinking, content("c"), finish(), DONE), patterns=patterns)
    assert (record.first_text, record.first_output, record.chunks) == (2000, 2002, 3)


def test_an_answer_leaves_behind_what_the_next_one_need_not_parse() -> None:
    patterns = Patterns()
    _read(*_named("one", *STREAMS[0]), patterns=patterns)
    assert patterns.template is not None
    first, *_, last, counts, _ = _named("two", *STREAMS[0])
    assert all(patterns.meaning(known, b"two") is not None for known in (first, last, counts))
