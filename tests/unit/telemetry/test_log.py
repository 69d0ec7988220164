from __future__ import annotations

import io
import json
import logging

import pytest

from tare.telemetry.log import configure, redact


def logged(message: str, *args: object, json_lines: bool = True, **options: object) -> str:
    stream = io.StringIO()
    configure("DEBUG", stream=stream, json_lines=json_lines)
    logging.getLogger("tare.test").warning(message, *args, **options)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Authorization: Bearer sk-12345", "Authorization: Bearer "),
        ("{'authorization': 'bearer abc.def-ghi'}", "{'authorization': 'bearer "),
        ('{"x-api-key": "k-778899", "a": 1}', '{"x-api-key": "'),
        ("api_key=hunter22&n=1", "api_key="),
        ("token: deadbeef", "token: "),
    ],
)
def test_a_secret_is_cut_out_and_the_text_before_it_stays(text: str, kept: str) -> None:
    result = redact(text)
    assert result.startswith(f"{kept}[redacted]")
    for secret in ("sk-12345", "abc.def", "k-778899", "hunter22", "deadbeef"):
        assert secret not in result


@pytest.mark.parametrize("text", ["12 tokens: all of them", "the bearer", "time_to_first_token 5"])
def test_words_that_only_look_like_a_secret_stay(text: str) -> None:
    assert redact(text) == text


def test_redacting_twice_is_redacting_once() -> None:
    once = redact("Bearer sk-12345")
    assert redact(once) == once


def test_a_secret_among_the_arguments_of_a_message_is_cut_out() -> None:
    assert "sk-1" not in logged("headers %s", {"Authorization": "Bearer sk-1"})


def test_a_secret_inside_a_traceback_is_cut_out() -> None:
    text = logged("failed", exc_info=ValueError("refused: Bearer sk-99"))
    assert "sk-99" not in text
    assert "ValueError" in json.loads(text)["traceback"]


def test_a_json_line_carries_the_level_the_logger_and_the_context() -> None:
    line = json.loads(logged("cell %d ended", 3, extra={"namespace": "bench", "run": "q"}))
    assert line["message"] == "cell 3 ended"
    assert (line["level"], line["logger"]) == ("WARNING", "tare.test")
    assert (line["namespace"], line["run"]) == ("bench", "q")
    assert line["time"].endswith("Z")


def test_the_object_that_kopf_names_becomes_namespace_and_run() -> None:
    line = json.loads(logged("x", extra={"k8s_ref": {"namespace": "bench", "name": "q"}}))
    assert (line["namespace"], line["run"]) == ("bench", "q")


def test_a_plain_line_names_the_run_before_the_message() -> None:
    text = logged("hello", json_lines=False, extra={"namespace": "bench", "run": "q"})
    assert text.endswith("WARNING tare.test: bench/q: hello\n")


def test_no_terminal_means_json_lines() -> None:
    stream = io.StringIO()
    configure("INFO", stream=stream)
    logging.getLogger("tare.test").info("x")
    assert json.loads(stream.getvalue())["message"] == "x"


def test_a_message_of_several_lines_is_one_json_line() -> None:
    assert logged("a\nb").count("\n") == 1


def test_an_unknown_level_is_refused_with_the_levels_there_are() -> None:
    with pytest.raises(ValueError, match=r"'LOUD': use one of .*INFO"):
        configure("loud", stream=io.StringIO())
