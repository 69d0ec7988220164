from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from tare.worker.meaning import Meaning
from tare.worker.template import NOTHING_FITS, Marks, Patterns, Template, id_of, text_in

ID = b"chatcmpl-7f"
OTHER_ID = b"chatcmpl-\x30\x31-longer"


def event(text: str, key: str = "content", **more: Any) -> bytes:
    choice = {"index": 0, "delta": {key: text}, "finish_reason": None}
    return orjson.dumps({"id": ID.decode(), "model": "m", "choices": [choice], **more})


def line(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def learned(raw: bytes, answer_id: bytes = ID) -> Template | None:
    return Template.learn(raw, answer_id, output=True)


def fits(marks: Marks, raw: bytes) -> bool:
    return text_in(marks, raw) != b""


def marks(raw: bytes) -> Marks:
    template = learned(raw)
    assert template is not None
    return template.marks(ID)


@pytest.mark.parametrize("key", ["content", "text", "reasoning", "reasoning_content"])
def test_an_event_with_another_text_fits(key: str) -> None:
    assert fits(marks(event(" the", key)), line(event(" quick, brown (fox): {}", key)))


def test_its_text_is_what_stands_between_the_quotes() -> None:
    assert text_in(marks(event("a")), line(event("@").replace(b"@", b" \\u00e9"))) == b" \\u00e9"


@pytest.mark.parametrize("text", ['"', "\\", "\n", "é", "日本", "\x7f", "\u2028"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_any_text_that_is_one_string_of_json_fits(text: str, *, ascii_only: bool) -> None:
    other = json.loads(event(text))
    raw = json.dumps(other, separators=(",", ":"), ensure_ascii=ascii_only).encode()
    assert fits(marks(event("a")), line(raw))


@pytest.mark.parametrize(
    "raw", [b"", b'"', b'a"b', b"\\", b"\\x", b"\n", b"\xff", b"\\ud800", b'a","b":"c', b"\0"]
)
def test_what_is_no_string_or_more_than_one_does_not(raw: bytes) -> None:
    assert not fits(marks(event("a")), line(event("@").replace(b"@", raw)))


@pytest.mark.parametrize(
    "other",
    [
        line(event("b", "reasoning")),
        line(event("b", usage={"completion_tokens": 2})),
        line(event("b").replace(b"null", b'"stop"')),
        line(event("b").replace(b'"m"', b'"n"')),
        line(event("b").replace(ID, OTHER_ID)),
        line(event("b") + b" "),
        line(event("b")[:-1]),
        line(event("b"))[:-1],
        line(event("b")) + line(event("b")),
        event("b"),
        line(b"[DONE]"),
        b"",
    ],
)
def test_nothing_but_the_text_may_differ(other: bytes) -> None:
    assert not fits(marks(event("a")), other)


def test_another_answer_of_the_target_differs_by_its_id_as_well() -> None:
    template = learned(event("a"))
    assert template is not None
    assert fits(template.marks(OTHER_ID), line(event("b").replace(ID, OTHER_ID)))
    assert not fits(template.marks(OTHER_ID), line(event("b")))


def test_the_id_may_stand_behind_the_text() -> None:
    raw = b'{"choices":[{"text":"a"}],"id": "x7"}'
    template = learned(raw, b"x7")
    assert template is not None
    assert fits(template.marks(b"y"), line(raw.replace(b"x7", b"y").replace(b'"a"', b'"b"')))


def test_bytes_like_the_id_in_another_place_are_no_id() -> None:
    raw = b'{"model":"x7","id":"x7","choices":[{"text":"a"}]}'
    template = learned(raw, b"x7")
    assert template is not None
    assert not fits(template.marks(b"y"), line(raw.replace(b"x7", b"y")))
    assert fits(template.marks(b"y"), line(raw))


def test_head_and_tail_may_not_share_a_byte() -> None:
    assert not fits(marks(b'{"choices":[{"text":"a"}]}'), line(b'{"choices":[{"text":"}]}'))


def test_before_anything_was_learned_nothing_fits() -> None:
    assert not fits(NOTHING_FITS, b"")
    assert not fits(NOTHING_FITS, b"a")


@pytest.mark.parametrize(
    "raw",
    [
        event("a", usage={"completion_tokens": 1}),
        event("a").replace(b"null", b'"stop"'),
        event("a", choices=[{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]),
        event("a").replace(b'"a"', b'["a"]'),
        event("\n"),
        event("index", tail={"index": 1}),
        b'{"choices":[{"delta":{"content":"a"},"a":"stop"}]}',
    ],
)
def test_an_event_whose_text_is_not_alone_or_not_certain_teaches_nothing(raw: bytes) -> None:
    assert learned(raw) is None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"id":"chatcmpl-7f","x":1}', b"chatcmpl-7f"),
        (b'{"object": "x", "id": "cmpl_7:f.a"}', b"cmpl_7:f.a"),
        (b'{"id":""}', b""),
        (b'{"id":7}', b""),
        (b'{"id":"a\\n"}', b""),
        ('{"id":"é"}'.encode(), b""),
        (b'{"id":"chatc', b""),
        (b"[DONE]", b""),
    ],
)
def test_an_id_is_taken_when_it_is_whole_and_plain(data: bytes, found: bytes) -> None:
    assert id_of(data) == found


FINISH = line(event("").replace(b"null", b'"stop"'))


def _kept(*, as_event: bytes = FINISH, answer_id: bytes = ID) -> Patterns:
    patterns = Patterns()
    patterns.keep(as_event, answer_id, Meaning.read(as_event.removeprefix(b"data: ")))
    return patterns


def test_what_an_event_without_text_means_is_known_for_other_answers() -> None:
    meaning = _kept().meaning(FINISH.replace(ID, OTHER_ID), OTHER_ID)
    assert meaning is not None
    assert (meaning.facts, meaning.ended) == ((("finish_reason", "stop"),), True)


@pytest.mark.parametrize(
    "other",
    [
        FINISH,
        FINISH.replace(ID, OTHER_ID).replace(b"stop", b"length"),
        FINISH.replace(ID, OTHER_ID)[:-1],
        FINISH.replace(ID, OTHER_ID).replace(b" ", b"  ", 1),
    ],
)
def test_the_meaning_of_an_event_that_differs_in_more_than_the_id_is_not_known(
    other: bytes,
) -> None:
    assert _kept().meaning(other, OTHER_ID) is None


def test_without_an_id_an_event_is_known_by_all_of_its_bytes() -> None:
    patterns = _kept(answer_id=b"")
    assert patterns.meaning(FINISH, b"") is not None
    assert patterns.meaning(FINISH, b"absent") is not None
    assert patterns.meaning(FINISH, ID) is None


def test_an_id_that_stands_elsewhere_too_early_is_never_cut_out() -> None:
    raw = line(b'{"x":"x7","id":"x7","choices":[]}')
    patterns = _kept(as_event=raw, answer_id=b"x7")
    assert patterns.meaning(raw, b"x7") is None
    assert patterns.meaning(raw.replace(b"x7", b"finish_reason"), b"finish_reason") is None


def test_what_is_kept_is_bounded_in_number_and_size() -> None:
    patterns = Patterns()
    nothing = Meaning.read(b'{"choices":[]}')
    patterns.keep(b"x" * 2000, b"", nothing)
    assert patterns.meaning(b"x" * 2000, b"") is None
    for number in range(1025):
        patterns.keep(b"%d" % number, b"", nothing)
    known = [patterns.meaning(b"%d" % number, b"") for number in range(1025)]
    assert 0 < len(known) - known.count(None) <= 1024


ROLE = line(event(""))


@pytest.mark.parametrize("answer_id", [OTHER_ID, b"x", b"a" * 256])
def test_an_answer_that_begins_like_the_one_before_is_known_at_once(answer_id: bytes) -> None:
    patterns = _kept(as_event=ROLE)
    kept = patterns.opening(ROLE)
    assert kept[0] == ID
    assert patterns.opening(ROLE.replace(ID, answer_id)) == (answer_id, kept[1])


@pytest.mark.parametrize("not_plain", [b"", b"a b", b"a" * 257, b'","id":"x', b"\xc3\xa9"])
def test_an_id_that_is_not_plain_is_none_in_a_known_opening_either(not_plain: bytes) -> None:
    patterns = _kept(as_event=ROLE)
    patterns.opening(ROLE)
    other = ROLE.replace(ID, not_plain)
    assert patterns.opening(other) == (id_of(other), None)


def test_an_opening_that_says_something_else_has_an_id_of_its_own_and_no_known_meaning() -> None:
    patterns = _kept(as_event=ROLE)
    patterns.opening(ROLE)
    assert patterns.opening(FINISH.replace(ID, OTHER_ID)) == (OTHER_ID, None)
