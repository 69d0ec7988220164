"""From a resolved spec to the work order: prompts needed, lengths, load and headers."""

from __future__ import annotations

from typing import Any

import pytest

from support.manifest_builder import ADDRESS, KEY, OWNER, order_of, phase, spec_of
from tare.api.names import ENV_AUTHORITY
from tare.manifests.order import build_order, build_target
from tare.measure.rows import MOST_ROWS
from tare.net.auth import headers_of
from tare.plan.order import (
    CacheBustOrder,
    HeaderOrder,
    Lengths,
    RampOrder,
    TlsOrder,
    TurnsOrder,
)


@pytest.mark.parametrize(
    ("load", "entries"),
    [
        pytest.param({"requests": 100}, 100, id="one prompt for each request"),
        pytest.param({"requests": 7, "durationSeconds": 3600}, 7, id="requests bound a duration"),
        pytest.param(
            {"type": "constant", "rate": 2.5, "durationSeconds": 61, "concurrency": None,
             "requests": None},
            153,
            id="an open loop sends rate times duration, rounded up",
        ),
        pytest.param(
            {"type": "constant", "rate": 0.01, "durationSeconds": 1, "concurrency": None,
             "requests": None},
            1,
            id="at least one",
        ),
        pytest.param(
            {"concurrency": 1, "durationSeconds": 10, "requests": None},
            1000,
            id="a short closed loop has the fewest that are guessed",
        ),
        pytest.param(
            {"concurrency": 50, "durationSeconds": 60, "requests": None},
            6000,
            id="a closed loop sends two a second for each in flight",
        ),
        pytest.param(
            {"concurrency": 500, "durationSeconds": 600, "requests": None},
            20_000,
            id="a long closed loop stays within a worker's memory",
        ),
    ],
)  # fmt: skip
def test_by_default_no_prompt_repeats_within_a_phase(load: dict[str, Any], entries: int) -> None:
    assert order_of(phases=[phase(**load)]).dataset.entries == entries


def test_the_phase_that_needs_most_prompts_decides() -> None:
    phases = [phase(name="warmup", kind="warmup", requests=300), phase(requests=20)]
    assert order_of(phases=phases).dataset.entries == 300


def test_entries_that_are_given_are_taken() -> None:
    assert order_of(dataset={"entries": 12, "seed": 7}).dataset.entries == 12
    assert order_of(dataset={"entries": 12, "seed": 7}).dataset.seed == 7


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        (64, Lengths(value=64)),
        ({"mean": 64}, Lengths(mean=64.0)),
        ({"mean": 64, "stddev": 8}, Lengths(mean=64.0, stddev=8.0)),
        ({"min": 16, "max": 32}, Lengths(min=16, max=32)),
        ({"values": [16, 32]}, Lengths(values=(16, 32))),
        ({"values": [16, 32], "weights": [1, 3]}, Lengths(values=(16, 32), weights=(1.0, 3.0))),
    ],
)
def test_every_form_of_a_length_is_handed_on(given: Any, lengths: Lengths) -> None:
    dataset = order_of(dataset={"prompts": {"isl": given, "osl": given}}).dataset
    assert (dataset.isl, dataset.osl) == (lengths, lengths)


def test_prefixes_turns_and_markers_are_handed_on() -> None:
    bust: Any = {"target": "system_suffix", "scope": "TrajectoryAndPhase", "carrier": "salt"}
    dataset = {
        "prompts": {"cacheBust": bust},
        "prefixPrompts": {"sharedSystemLength": 99, "userContextLength": 9},
        "turns": {"mean": 2.5, "turnDelay": "500ms"},
    }
    sessions = phase(type="sessions", requests=None, sessions=7, ramp={"seconds": 5.0})
    order = order_of(dataset=dataset, phases=[sessions])
    found = order.dataset
    assert found.cache_bust == CacheBustOrder(**bust)
    assert (found.shared_system, found.user_context, found.has_system) == (99, 9, True)
    assert found.turns == TurnsOrder(mean=2.5, delay=0.5)
    assert (order.phases[0].sessions, order.phases[0].requests) == (7, None)
    assert found.entries == 7
    assert order.phases[0].ramp == RampOrder(seconds=5.0, start=1.0)


def test_a_pool_is_handed_on() -> None:
    found = order_of(dataset={"prefixPrompts": {"poolSize": 4, "poolLength": 64}}).dataset
    assert (found.pool_size, found.pool_length, found.has_system) == (4, 64, False)


def test_a_system_prompt_is_that_of_the_manifest_or_the_one_that_was_read() -> None:
    inline = order_of(dataset={"prefixPrompts": {"systemPrompt": "Be brief."}})
    assert inline.dataset.system_prompt == "Be brief."
    source = {"configMapKeyRef": {"name": "prompts", "key": "brief"}}
    spec = spec_of(dataset={"prefixPrompts": {"systemPromptFrom": source}})
    read = build_order(OWNER, KEY, spec, address=ADDRESS, headers=(), system_prompt="Be clear.")
    assert read.dataset.system_prompt == "Be clear."


def test_workers_may_ask_the_target_what_a_token_is() -> None:
    assert order_of().count_tokens


def test_the_order_names_its_attempt_and_how_many_share_it() -> None:
    order = order_of(workers={"replicas": 3})
    assert (order.run, order.namespace, order.run_uid) == (OWNER.name, OWNER.namespace, OWNER.uid)
    assert (order.cell, order.trial, order.attempt) == (KEY.cell, KEY.trial, KEY.attempt)
    assert order.workers == 3


def test_a_constant_phase_keeps_its_rate_and_its_bound() -> None:
    given = phase(type="constant", rate=4, maxConcurrency=32, concurrency=None, durationSeconds=60)
    [found] = order_of(phases=[given]).phases
    assert (found.type, found.rate, found.max_concurrency) == ("constant", 4.0, 32)
    assert (found.requests, found.duration, found.concurrency) == (100, 60.0, None)


@pytest.mark.parametrize(
    ("load", "most"),
    [
        ({"type": "poisson", "rate": 10}, 1190),
        ({"type": "gamma", "smoothness": 0.25, "rate": 10}, 1380),
        ({"type": "constant", "rate": 10, "ramp": {"seconds": 100}}, 500),
    ],
)
def test_random_gaps_get_prompts_for_more_requests_than_any_seed_sends(
    load: dict[str, Any], most: int
) -> None:
    open_loop = {"durationSeconds": 100, "concurrency": None, "requests": None}
    assert order_of(phases=[phase(**load, **open_loop)]).dataset.entries == most


def test_the_seed_of_the_dataset_is_that_of_the_arrivals() -> None:
    given = phase(type="gamma", smoothness=2, rate=4, concurrency=None)
    [found] = order_of(dataset={"seed": 7}, phases=[given]).phases
    assert (found.type, found.smoothness, found.seed) == ("gamma", 2.0, 7)


@pytest.mark.parametrize(
    ("load", "ramp"),
    [
        ({}, None),
        ({"ramp": {"seconds": 9}}, RampOrder(seconds=9.0, start=1.0)),
        (
            {"type": "constant", "rate": 4, "concurrency": None, "ramp": {"seconds": 9}},
            RampOrder(seconds=9.0, start=0.0),
        ),
        (
            {"ramp": {"type": "exponential", "seconds": 9, "from": 2}},
            RampOrder(type="exponential", seconds=9.0, start=2.0),
        ),
    ],
)
def test_a_ramp_begins_where_it_says_or_low(load: dict[str, Any], ramp: RampOrder | None) -> None:
    [found] = order_of(phases=[phase(**load)]).phases
    assert found.ramp == ramp


def test_the_share_of_requests_to_cancel_is_a_fraction() -> None:
    phases = [phase(name="a"), phase(name="b", cancelShare="25%", cancelAfterSeconds=0.5)]
    found = order_of(phases=phases).phases
    assert [(p.cancel_share, p.cancel_after) for p in found] == [(0.0, 0.0), (0.25, 0.5)]


def test_processes_are_handed_on() -> None:
    assert order_of(workers={"replicas": 3, "processes": 4}).processes == 4


def test_every_request_of_a_small_run_has_a_row() -> None:
    assert order_of().rows == MOST_ROWS


@pytest.mark.parametrize(
    ("tls", "order"),
    [
        (None, None),
        ({}, TlsOrder()),
        ({"insecureSkipVerify": True}, TlsOrder(verify=False)),
        ({"caSecretRef": {"name": "ca", "key": "ca.crt"}}, TlsOrder(authority_env=ENV_AUTHORITY)),
    ],
)
def test_tls_settings_name_the_variable_of_the_authority(
    tls: dict[str, Any] | None, order: TlsOrder | None
) -> None:
    endpoint = {} if tls is None else {"tls": tls}
    assert order_of(endpoint=endpoint).target.tls == order


def test_the_grace_period_is_thirty_seconds_unless_said() -> None:
    phases = [phase(name="a"), phase(name="b", gracePeriodSeconds=0)]
    assert [p.grace for p in order_of(phases=phases).phases] == [30.0, 0.0]


def test_limits_of_goodput_are_seconds_by_metric() -> None:
    order = order_of(goodput={"time_to_first_token": "500ms", "request_latency": "2s"})
    assert order.goodput == {"time_to_first_token": 0.5, "request_latency": 2.0}


def test_load_goes_to_the_address_that_discovery_found_under_the_services_name() -> None:
    target = order_of(endpoint={"requestTimeoutSeconds": 5, "streaming": False}).target
    assert (target.urls, target.host) == (ADDRESS.urls, ADDRESS.host)
    assert (target.request_timeout, target.idle_timeout, target.streaming) == (5.0, 60.0, False)


def test_headers_name_the_variables_of_their_secrets() -> None:
    endpoint = spec_of(
        endpoint={
            "apiKeySecretRef": {"name": "key", "key": "token"},
            "headers": [
                {"name": "X-Team", "value": "perf"},
                {"name": "X-Auth", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
        }
    ).endpoint
    headers = headers_of(endpoint.model_dump(by_alias=True, exclude_none=True))
    target = build_target(endpoint, ADDRESS, headers)
    assert target.headers == (
        HeaderOrder(name="Authorization", env="TARE_HEADER_0", prefix="Bearer "),
        HeaderOrder(name="X-Team", value="perf"),
        HeaderOrder(name="X-Auth", env="TARE_HEADER_2"),
    )
