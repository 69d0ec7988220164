"""Flags that are refused: by name, with the value, with what is allowed, before anything starts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tare.cli.flag_check import load_flags
from tare.cli.flags import Flags
from tare.cli.run_file import InvalidRunError


def refusal(**given: Any) -> list[str]:
    """What is said about these flags, line by line."""
    flags = Flags(**{"urls": ("http://h:8000",), "model": "m", "request_count": 20, **given})
    with pytest.raises(InvalidRunError) as refused:
        load_flags(flags)
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("given", "flag", "value", "allowed"),
    [
        ({"urls": ("h:8000",)}, "--url", "'h:8000'", "write http:// or https://"),
        ({"urls": ("http://h:8000",) * 2}, "--url", "", "every URL stands once"),
        ({"model": ""}, "--model", "''", "is empty"),
        ({"request_count": 0}, "--request-count", "0", "from 1 to 1000000000"),
        ({"concurrency": 0}, "--concurrency", "0", "from 1 to 1000000"),
        ({"request_rate": 1.0, "concurrency": 0}, "--concurrency", "0", "from 1 to 1000000"),
        ({"request_rate": -1.0}, "--request-rate", "-1", "from more than 0 to 1000000"),
        ({"isl": 0}, "--isl", "0", "from 1 to 10000000"),
        ({"osl": 0}, "--osl", "0", "from 1 to 10000000"),
        ({"isl": 9, "cache_bust": "first_turn_prefix"}, "--isl", "", "make it longer"),
        (
            {"shared_system_prompt_length": 9, "cache_bust": "system_suffix"},
            "--shared-system-prompt-length",
            "",
            "make it longer",
        ),
        ({"shared_system_prompt_length": 0}, "--shared-system-prompt-length", "0", "from 1 to"),
        ({"system_prompt": ""}, "--system-prompt", "''", "is empty"),
        ({"system_prompt_file": ""}, "--system-prompt-file", "''", "is empty"),
        ({"user_context_prompt_length": 0}, "--user-context-prompt-length", "0", "from 1 to"),
        (
            {"num_prefix_prompts": 0, "prefix_prompt_length": 9},
            "--num-prefix-prompts",
            "0",
            "from 1 to 100000",
        ),
        (
            {"num_prefix_prompts": 9, "prefix_prompt_length": 0},
            "--prefix-prompt-length",
            "0",
            "from 1 to",
        ),
        ({"reset_kv_cache_path": "x"}, "--reset-kv-cache-path", "'x'", "start it with one '/'"),
        ({"reset_kv_cache_path": "/a://b"}, "--reset-kv-cache-path", "'/a://b'", "leave out '://'"),
        (
            {"reset_kv_cache_timeout_seconds": 0.0},
            "--reset-kv-cache-timeout-seconds",
            "0",
            "from more than 0",
        ),
        (
            {"server_profiler_start_path": "http://h/x"},
            "--server-profiler-start-path",
            "'http://h/x'",
            "start it with one '/'",
        ),
        ({"server_profiler_stop_path": ""}, "--server-profiler-stop-path", "''", "start it with"),
        (
            {"server_profiler_timeout_seconds": math.nan},
            "--server-profiler-timeout-seconds",
            "nan",
            "write one, as 30",
        ),
        ({"headers": (("Host", "x"),)}, "--header", "'Host'", "remove it"),
        ({"headers": (("X-A", "1"), ("x-a", "2"))}, "--header", "", "every header stands once"),
        (
            {"warmup_request_count": 2_000_000_000},
            "--warmup-request-count",
            "2000000000",
            "from 1 to 1000000000",
        ),
        (
            {"warmup_num_sessions": 2_000_000_000},
            "--warmup-num-sessions",
            "2000000000",
            "from 1 to 1000000000",
        ),
        ({"warmup_duration": 1e9}, "--warmup-duration", "1000000000", "to 604800"),
    ],
)
def test_a_bad_value_is_told_once_with_its_flag_and_what_is_allowed(
    given: dict[str, Any], flag: str, value: str, allowed: str
) -> None:
    (line,) = refusal(**given)
    assert line.startswith(f"{flag}: {value}")
    assert allowed in line


def test_a_value_that_both_phases_share_is_told_once() -> None:
    assert len(refusal(concurrency=0, warmup_request_count=5)) == 1


def test_every_bad_value_is_told_not_only_the_first() -> None:
    assert [line.partition(":")[0] for line in refusal(isl=0, osl=0)] == ["--isl", "--osl"]


@pytest.mark.parametrize("flag", ["warmup_request_count", "warmup_num_sessions", "warmup_duration"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_warm_up_is_left_out_and_not_set_to_nothing(flag: str, value: int) -> None:
    (line,) = refusal(**{flag: value})
    assert line.startswith(f"--{flag.replace('_', '-')}: {value} is no warm-up")
    assert (
        "leave --warmup-request-count, --warmup-num-sessions and --warmup-duration out: then "
        "nothing comes between the reset and profiling"
    ) in line


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"shared_system_prompt_length": 64, "system_prompt": "x"},
            "--shared-system-prompt-length and --system-prompt fill the same system message",
        ),
        (
            {"system_prompt": "x", "system_prompt_file": "y"},
            "--system-prompt and --system-prompt-file fill the same system message",
        ),
        ({"num_prefix_prompts": 3}, "--num-prefix-prompts: a pool needs"),
        ({"prefix_prompt_length": 3}, "--prefix-prompt-length: a pool needs"),
        (
            {"num_prefix_prompts": 3, "prefix_prompt_length": 9, "system_prompt": "x"},
            "--num-prefix-prompts, --prefix-prompt-length and --system-prompt: a pool",
        ),
        (
            {"num_prefix_prompts": 3, "prefix_prompt_length": 9, "user_context_prompt_length": 9},
            "--num-prefix-prompts, --prefix-prompt-length and --user-context-prompt-length: a pool",
        ),
        (
            {"endpoint_type": "completions", "user_context_prompt_length": 9},
            "--user-context-prompt-length: a completion has no messages",
        ),
        (
            {"warmup_request_count": 3, "warmup_num_sessions": 3},
            "--warmup-request-count and --warmup-num-sessions both say",
        ),
        (
            {"cache_bust": "warmup_isolation_first_turn"},
            "--cache-bust: warmup_isolation_first_turn marks the warm-up, and there is none; add",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_named(given: dict[str, Any], words: str) -> None:
    (line,) = refusal(**given)
    assert line.startswith(words)


@pytest.mark.parametrize(
    "prefix",
    [
        {},
        {"user_context_prompt_length": 64},
        {"num_prefix_prompts": 2, "prefix_prompt_length": 64},
    ],
)
def test_a_system_message_that_is_not_there_cannot_isolate_the_warm_up(
    prefix: dict[str, Any],
) -> None:
    (line,) = refusal(cache_bust="warmup_isolation_system", warmup_request_count=5, **prefix)
    assert line.startswith("--cache-bust: warmup_isolation_system marks a system message")
    assert "or use warmup_isolation_first_turn" in line
