"""Replicas that answered hardly anything are named, by the servers' own counters."""

from __future__ import annotations

import pytest

from tare.api.reasons import Reason
from tare.measure.concerns import find_uneven_load
from tare.measure.servers import ServerCount, ServerCounts, requests_by_replica


def servers(*requests: int) -> list[ServerCounts]:
    """Replicas `qwen-0` … that had answered a hundred requests before, and these meanwhile."""
    return [
        ServerCounts(
            replica=f"qwen-{index}",
            before={ServerCount.REQUESTS: 100.0},
            after={ServerCount.REQUESTS: 100.0 + count},
        )
        for index, count in enumerate(requests)
    ]


def said(*requests: int) -> str:
    (concern,) = find_uneven_load(servers(*requests))
    assert concern.reason is Reason.UNEVEN_LOAD
    return concern.message


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param((32,), id="one replica has it all"),
        pytest.param((10, 10, 12), id="equal shares"),
        pytest.param((5, 15, 10), id="just half of the fair share"),
        pytest.param((0, 0), id="no requests at all"),
        pytest.param((), id="no replica known"),
    ],
)
def test_a_fair_load_is_of_no_concern(requests: tuple[int, ...]) -> None:
    assert find_uneven_load(servers(*requests)) == ()


def test_a_replica_that_got_nothing_is_named() -> None:
    assert said(20, 0, 12).startswith(
        "1 of 3 replicas answered less than half of their fair share of 32 requests, "
        "which is 10.67: qwen-1 none. "
    )


def test_replicas_with_less_than_half_of_their_share_are_named_the_worst_first() -> None:
    assert ": qwen-2 1, qwen-1 4. " in said(25, 4, 1)


def test_the_message_says_what_to_do() -> None:
    message = said(8, 0)
    assert "raise the concurrency, or set endpoint.via to Endpoints" in message


def test_no_more_than_five_replicas_are_named() -> None:
    message = said(*[640] + [0] * 63)
    assert "63 of 64 replicas" in message
    assert message.count("none") == 5
    assert "and 58 others. " in message


def test_nothing_is_said_when_a_replica_does_not_tell_what_it_answered() -> None:
    silent = ServerCounts(replica="qwen-9", before={}, after={})
    assert find_uneven_load([*servers(20, 0), silent]) == ()


def test_a_restarted_replica_leaves_all_shares_unknown() -> None:
    restarted = ServerCounts(
        replica="qwen-9",
        before={ServerCount.REQUESTS: 100.0},
        after={ServerCount.REQUESTS: 4.0},
    )
    assert requests_by_replica([*servers(20), restarted]) == {}


def test_requests_are_whole_numbers_by_name() -> None:
    assert requests_by_replica(servers(20, 12)) == {"qwen-0": 20, "qwen-1": 12}
