"""What a valid spec means: unions in one form, defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from support.invalid_manifests import changed
from tare.api.hooks import ResetKvCache, ServerProfiler
from tare.api.lengths import TokenLengths
from tare.api.problems import check_spec

if TYPE_CHECKING:
    from tare.api.spec import BenchmarkRunSpec


def spec_with(**change: Any) -> BenchmarkRunSpec:
    """Parse the valid manifest with some fields below `spec` changed; `__` stands for a dot."""
    paths = {f"spec.{path.replace('__', '.')}": value for path, value in change.items()}
    spec, problems = check_spec(changed(paths)["spec"])
    assert spec is not None, problems
    return spec


def test_a_reset_that_is_off_is_nothing() -> None:
    assert spec_with(endpoint__resetKvCache=False).endpoint.reset is None


@pytest.mark.parametrize(
    ("server", "path"),
    [
        ("vllm", "/reset_prefix_cache"),
        ("generic", "/reset_prefix_cache"),
        ("sglang", "/flush_cache"),
    ],
)
def test_the_default_path_of_a_reset_is_the_servers(server: str, path: str) -> None:
    spec = spec_with(endpoint__resetKvCache=True, endpoint__server=server)

    assert spec.endpoint.reset == ResetKvCache(
        path=path, timeout_seconds=30, max_retry_seconds=60, on_failure="Fail"
    )


def test_an_object_overrides_the_defaults_of_a_reset_one_by_one() -> None:
    options = {"path": "/admin/reset", "maxRetrySeconds": 0, "onFailure": "Continue"}

    assert spec_with(endpoint__resetKvCache=options).endpoint.reset == ResetKvCache(
        path="/admin/reset", timeout_seconds=30, max_retry_seconds=0, on_failure="Continue"
    )


@pytest.mark.parametrize(
    ("options", "path", "external"),
    [
        ({}, "/reset_prefix_cache", False),
        ({"resetExternal": True}, "/reset_prefix_cache?reset_external=true", True),
        ({"resetExternal": True, "path": "/r?a=1"}, "/r?a=1&reset_external=true", True),
        ({"path": "/r?reset_external=true"}, "/r?reset_external=true", True),
        (
            {"resetExternal": True, "path": "/r?reset_external=true"},
            "/r?reset_external=true",
            True,
        ),
    ],
)
def test_b71_the_external_cache_is_reset_by_a_query(
    options: dict[str, Any], path: str, *, external: bool
) -> None:
    reset = spec_with(endpoint__resetKvCache=options).endpoint.reset

    assert reset is not None
    assert (reset.path, reset.external) == (path, external)


@pytest.mark.parametrize(
    ("at", "start", "later"),
    [("CellStart", True, False), ("BeforeProfiling", False, True), ("Both", True, True)],
)
def test_a_reset_comes_at_the_start_before_profiling_or_both(
    at: str, *, start: bool, later: bool
) -> None:
    reset = spec_with(endpoint__resetKvCache={"at": at}).endpoint.reset

    assert reset is not None
    assert (reset.at_start, reset.before_profiling) == (start, later)


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ({}, {}),
        ({"maxIterations": 30}, {"max_iterations": 30}),
        ({"startBody": {"num_steps": 5}}, {"num_steps": 5}),
        (
            {"maxIterations": 30, "startBody": {"max_iterations": 7, "delay_iterations": 2}},
            {"max_iterations": 7, "delay_iterations": 2},
        ),
    ],
)
def test_the_body_of_a_start_is_what_is_written_and_the_limit_of_steps(
    options: dict[str, Any], body: dict[str, Any]
) -> None:
    spec = spec_with(endpoint__serverProfiler=options, endpoint__server="vllm")

    assert spec.endpoint.profiler is not None
    assert spec.endpoint.profiler.start_body == body


def test_an_empty_object_switches_a_hook_on() -> None:
    endpoint = spec_with(endpoint__resetKvCache={}, endpoint__serverProfiler={}).endpoint

    assert endpoint.reset == spec_with(endpoint__resetKvCache=True).endpoint.reset
    assert endpoint.profiler == spec_with(endpoint__serverProfiler=True).endpoint.profiler


@pytest.mark.parametrize(
    ("options", "start", "stop"),
    [
        (True, 30, 300),
        ({"timeoutSeconds": 15}, 15, 15),
        ({"stopTimeoutSeconds": 600}, 30, 600),
        ({"timeoutSeconds": 15, "stopTimeoutSeconds": 600}, 15, 600),
    ],
)
def test_a_profilers_stop_waits_longer_unless_a_timeout_is_written(
    options: Any, start: float, stop: float
) -> None:
    assert spec_with(endpoint__serverProfiler=options).endpoint.profiler == ServerProfiler(
        start_path="/start_profile",
        stop_path="/stop_profile",
        timeout_seconds=start,
        stop_timeout_seconds=stop,
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (512, TokenLengths(value=512)),
        ({"mean": 100}, TokenLengths(mean=100)),
        ({"mean": 100, "stddev": 5}, TokenLengths(mean=100, stddev=5)),
        ({"min": 1, "max": 9}, TokenLengths(min=1, max=9)),
        ({"values": [1, 2]}, TokenLengths(values=(1, 2))),
        ({"values": [1, 2], "weights": [3, 1]}, TokenLengths(values=(1, 2), weights=(3, 1))),
    ],
)
def test_lengths_come_in_one_form(written: Any, meant: TokenLengths) -> None:
    prompts = spec_with(
        dataset__prompts__isl=written, dataset__prompts__osl=written
    ).dataset.prompts

    assert (prompts.input_lengths, prompts.output_lengths) == (meant, meant)


def test_the_bounds_of_goals_are_seconds_fractions_and_numbers() -> None:
    latency, errors, rate = spec_with(
        goals=[
            {"metric": "request_latency", "statistic": "p99", "max": "500ms"},
            {"metric": "error_rate", "max": "1%"},
            {"metric": "request_throughput", "min": "3"},
        ]
    ).goals

    assert (latency.lower, latency.upper) == (None, 0.5)
    assert (errors.lower, errors.upper) == (None, 0.01)
    assert (rate.lower, rate.upper) == (3.0, None)


def test_a_metric_of_one_number_is_judged_by_its_mean() -> None:
    goals = spec_with(goals=[{"metric": "error_rate", "max": 0.5}]).goals

    assert goals[0].statistic_or_mean == "mean"


def test_the_limits_of_good_requests_are_seconds() -> None:
    limits = {"time_to_first_token": "500ms", "time_per_output_token": "50ms"}

    assert spec_with(goodput=limits).goodput_seconds == {
        "time_to_first_token": 0.5,
        "time_per_output_token": 0.05,
    }
    assert spec_with().goodput_seconds == {}


def test_the_share_of_errors_that_stops_a_cell_is_a_fraction() -> None:
    stop = spec_with(stopOn={"errorRate": "20%"}).stop_on

    assert stop is not None
    assert (stop.error_fraction, stop.after_requests) == (0.2, 50)


def test_one_url_and_several_are_read_alike() -> None:
    one = {"spec.endpoint.url": "http://a:8000/v1"}
    several = {"spec.endpoint.urls": ["http://a", "http://b"]}

    found = []
    for target in (one, several):
        manifest = changed(target)
        del manifest["spec"]["endpoint"]["service"]
        spec, problems = check_spec(manifest["spec"])
        assert spec is not None, problems
        found.append(spec.endpoint.given_urls)
    assert found == [("http://a:8000/v1",), ("http://a", "http://b")]


def test_a_small_manifest_gets_the_documented_defaults() -> None:
    spec, problems = check_spec(
        {
            "endpoint": {"url": "http://a", "model": "m"},
            "phases": [
                {
                    "name": "p",
                    "kind": "profiling",
                    "type": "concurrency",
                    "concurrency": 1,
                    "requests": 1,
                }
            ],
        }
    )

    assert problems == ()
    assert spec is not None
    endpoint = spec.endpoint
    assert (endpoint.type, endpoint.streaming, endpoint.server) == ("chat", True, "generic")
    assert (endpoint.request_timeout_seconds, endpoint.idle_timeout_seconds) == (600, 60)
    assert (spec.trials.count, spec.workers.replicas, spec.workers.prestart) == (1, 1, True)
    assert (spec.suspend, spec.cancel, spec.on_cell_failure) == (False, False, "Continue")
    assert spec.ttl_seconds_after_finished is None


def test_a_spec_cannot_be_changed_after_it_was_read() -> None:
    spec = spec_with()

    with pytest.raises(ValidationError, match="frozen"):
        spec.trials.count = 5  # type: ignore[misc]


def test_a_spec_survives_being_written_and_read_again() -> None:
    spec = spec_with()

    again, problems = check_spec(spec.model_dump(mode="json", by_alias=True, exclude_none=True))

    assert problems == ()
    assert again == spec
