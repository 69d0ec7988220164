from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tare.cli.flag_check import load_flags, show_manifest
from tare.cli.flags import Flags, build_run, build_secret
from tare.decide.acceptance import Accepted, accept
from tare.net.allowlist import AllowList

URL = "http://127.0.0.1:8000"
ISOLATION = ("warmup_isolation_system", "warmup_isolation_first_turn")
SYSTEM = "You are a helpful assistant."


def flags(**given: Any) -> Flags:
    """The least that a run needs, and what is given."""
    return Flags(**{"urls": (URL,), "model": "m", "request_count": 20, **given})


def spec(**given: Any) -> dict[str, Any]:
    """The spec that these flags build."""
    built: dict[str, Any] = build_run(flags(**given))["spec"]
    return built


def test_a_url_is_the_endpoint() -> None:
    endpoint = spec()["endpoint"]
    assert endpoint["url"] == URL
    assert "urls" not in endpoint


def test_several_urls_are_sent_to_in_turn() -> None:
    endpoint = spec(urls=(f"{URL}/v1", "http://127.0.0.1:8001"))["endpoint"]
    assert endpoint["urls"] == [f"{URL}/v1", "http://127.0.0.1:8001"]
    assert "url" not in endpoint


def test_requests_are_streamed_only_when_asked_for() -> None:
    assert spec()["endpoint"]["streaming"] is False
    assert spec(streaming=True)["endpoint"]["streaming"] is True


def test_concurrency_is_a_closed_loop() -> None:
    assert spec(concurrency=8)["phases"] == [
        {
            "name": "profiling",
            "kind": "profiling",
            "type": "concurrency",
            "concurrency": 8,
            "requests": 20,
        }
    ]


def test_without_load_flags_one_request_is_in_flight() -> None:
    (profiling,) = spec()["phases"]
    assert (profiling["type"], profiling["concurrency"]) == ("concurrency", 1)


def test_a_rate_is_an_open_loop_that_concurrency_bounds() -> None:
    (free,) = spec(request_rate=4.5)["phases"]
    (bound,) = spec(request_rate=4.5, concurrency=8)["phases"]
    assert (free["type"], free["rate"]) == ("poisson", 4.5)
    assert "maxConcurrency" not in free
    assert bound["maxConcurrency"] == 8
    assert "concurrency" not in bound


def test_without_a_warmup_flag_there_is_no_warm_up() -> None:
    assert [phase["kind"] for phase in spec()["phases"]] == ["profiling"]


@pytest.mark.parametrize(
    ("given_flags", "ends"),
    [
        ({"warmup_request_count": 5}, {"requests": 5}),
        ({"warmup_num_sessions": 5}, {"requests": 5}),
        ({"warmup_duration": 2.5}, {"durationSeconds": 2.5}),
        (
            {"warmup_request_count": 5, "warmup_duration": 2.5},
            {"requests": 5, "durationSeconds": 2.5},
        ),
    ],
)
def test_a_warm_up_has_its_own_end_and_the_load_of_profiling(
    given_flags: dict[str, Any], ends: dict[str, Any]
) -> None:
    warmup, profiling = spec(concurrency=3, **given_flags)["phases"]
    assert warmup == {
        "name": "warmup",
        "kind": "warmup",
        "type": "concurrency",
        "concurrency": 3,
        **ends,
    }
    assert profiling["kind"] == "profiling"


def test_hooks_are_off_unless_a_flag_asks_for_them() -> None:
    assert {"resetKvCache", "serverProfiler"}.isdisjoint(spec()["endpoint"])


def test_a_hook_that_is_only_switched_on_keeps_every_default() -> None:
    endpoint = spec(reset_kv_cache=True, server_profiler=True)["endpoint"]
    assert (endpoint["resetKvCache"], endpoint["serverProfiler"]) == (True, True)


@pytest.mark.parametrize("switch", [True, False], ids=["with the switch", "without it"])
@pytest.mark.parametrize(
    ("flag", "value", "hook", "field"),
    [
        ("reset_kv_cache_path", "/flush", "resetKvCache", "path"),
        ("reset_kv_cache_timeout_seconds", 5.0, "resetKvCache", "timeoutSeconds"),
        ("server_profiler_start_path", "/on", "serverProfiler", "startPath"),
        ("server_profiler_stop_path", "/off", "serverProfiler", "stopPath"),
        ("server_profiler_timeout_seconds", 5.0, "serverProfiler", "timeoutSeconds"),
    ],
)
def test_an_override_turns_its_hook_on_and_no_other(
    flag: str, value: Any, hook: str, field: str, *, switch: bool
) -> None:
    switches = {"resetKvCache": "reset_kv_cache", "serverProfiler": "server_profiler"}
    endpoint = spec(**{flag: value, switches[hook]: switch})["endpoint"]
    assert endpoint[hook] == {field: value}
    assert (switches.keys() - {hook}).isdisjoint(endpoint)


@pytest.mark.parametrize(
    ("given_flags", "prefix"),
    [
        ({"shared_system_prompt_length": 64}, {"sharedSystemLength": 64}),
        ({"system_prompt": SYSTEM}, {"systemPrompt": SYSTEM}),
        ({"system_prompt_file": f"{SYSTEM}\n"}, {"systemPrompt": f"{SYSTEM}\n"}),
        ({"user_context_prompt_length": 64}, {"userContextLength": 64}),
        (
            {"num_prefix_prompts": 3, "prefix_prompt_length": 64},
            {"poolSize": 3, "poolLength": 64},
        ),
    ],
)
def test_each_kind_of_prefix_has_its_field(
    given_flags: dict[str, Any], prefix: dict[str, Any]
) -> None:
    assert spec(**given_flags)["dataset"] == {"prefixPrompts": prefix}


def test_lengths_and_the_marker_go_to_the_prompts() -> None:
    assert spec(isl=100, osl=10, cache_bust="first_turn_prefix")["dataset"] == {
        "prompts": {"isl": 100, "osl": 10, "cacheBust": {"target": "first_turn_prefix"}}
    }


def test_what_is_not_given_is_left_to_the_manifests_defaults() -> None:
    accepted = accept(build_run(flags()), allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted)
    prompts = accepted.spec.dataset.prompts
    assert (prompts.isl, prompts.osl, prompts.cache_bust.target) == (512, 128, "none")


def test_a_headers_value_stands_in_the_secret_alone() -> None:
    given_flags = flags(headers=(("Authorization", "Bearer sk-1"), ("X-Team", "perf")))
    secret = build_secret(given_flags)
    assert secret is not None
    assert secret["stringData"] == {"authorization": "Bearer sk-1", "x-team": "perf"}
    run = build_run(given_flags)
    assert "sk-1" not in str(run) + repr(given_flags)
    references = [
        (h["name"], h["valueFrom"]["secretKeyRef"]) for h in run["spec"]["endpoint"]["headers"]
    ]
    name = secret["metadata"]["name"]
    assert references == [
        ("Authorization", {"name": name, "key": "authorization"}),
        ("X-Team", {"name": name, "key": "x-team"}),
    ]


def test_the_secret_is_created_before_the_run_and_in_its_namespace() -> None:
    loaded = load_flags(flags(headers=(("Authorization", "Bearer sk-1"),)))
    assert [kind.plural for kind, _ in loaded.objects] == ["secrets", "benchmarkruns"]
    assert {document["metadata"]["namespace"] for _, document in loaded.objects} == {"default"}


def test_without_headers_there_is_no_secret() -> None:
    assert build_secret(flags()) is None
    assert load_flags(flags()).others == ()


_TOKENS = st.integers(20, 2000)
_PREFIX: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"shared_system_prompt_length": _TOKENS}),
    st.fixed_dictionaries({"system_prompt": st.text(st.characters(codec="utf-8"), min_size=1)}),
    st.fixed_dictionaries({"user_context_prompt_length": _TOKENS}),
    st.fixed_dictionaries({"num_prefix_prompts": _TOKENS, "prefix_prompt_length": _TOKENS}),
)
_SOME = st.fixed_dictionaries(
    {},
    optional={
        "concurrency": st.integers(1, 100),
        "request_rate": st.floats(0.1, 1000),
        "isl": _TOKENS,
        "osl": _TOKENS,
        "cache_bust": st.sampled_from(
            [*ISOLATION, "none", "system_prefix", "first_turn_suffix", "first_turn_prefix"]
        ),
        "reset_kv_cache_timeout_seconds": st.floats(0.1, 1000),
        "server_profiler_stop_path": st.just("/off"),
        "headers": st.just((("Authorization", "Bearer sk-1"),)),
    },
)


@given(prefix=_PREFIX, some=_SOME, warmup=st.integers(1, 100))
def test_a_printed_manifest_is_the_one_that_is_run(
    prefix: dict[str, Any], some: dict[str, Any], warmup: int
) -> None:
    """Any system text, number and combination survives YAML; and flags that fit are accepted."""
    if some.get("cache_bust") == ISOLATION[0]:
        prefix = {"system_prompt": SYSTEM}
    given_flags = flags(warmup_request_count=warmup, **prefix, **some)
    printed = yaml.safe_load(show_manifest(given_flags)[0])
    run = load_flags(given_flags).run
    del run["metadata"]["namespace"]
    assert printed == run
