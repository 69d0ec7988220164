"""What the records of requests tell of a cache."""

from __future__ import annotations

import pytest

from tare.measure.rows import Row
from tare.plan.cache.expected import Request, Servers
from tare.plan.cache.outline import Frame, Outline
from tare.plan.cache.prefixes import Prefixes
from tare.plan.cache.records import Excess, overlaps, too_warm

OUTLINE = Outline(
    entries=4,
    runs="4*0:64/4",
    described=4,
    exact=True,
    system=320,
    frame=Frame(starts=(0, 0), total=0),
)
PREFIXES = Prefixes(OUTLINE, answers_repeat=True)
SYSTEM = PREFIXES.path(0, 0, None)[1]
"""The system prompt, up to where the questions part."""


def row(number: int, sent: int, *, ttft: int | None = 100, cached: int | None = 0) -> Row:
    """A request that was sent so many microseconds after the gate."""
    return Row(
        number=number,
        entry=number % 4,
        due=sent,
        lag=0,
        time_to_first_token=ttft,
        latency=None if ttft is None else ttft + 50,
        output_tokens=4,
        cached_tokens=cached,
        outcome="ok" if ttft is not None else "error",
    )


def sent(*rows: Row) -> list[tuple[Row, Request]]:
    return [(one, Request(one.entry)) for one in rows]


def missed(rows: list[tuple[Row, Request]], *, replicas: int = 1, skew: int = 0) -> int:
    servers = Servers(block=16, replicas=replicas)
    return overlaps(rows, PREFIXES, servers, skew=skew)[SYSTEM.key]


def test_only_what_was_sent_before_the_first_token_of_the_first_may_miss() -> None:
    rows = sent(row(0, 0), row(1, 60), row(2, 100), row(3, 101))
    assert missed(rows) == 3
    assert missed(rows, skew=1) == 4, "clocks that lie a microsecond apart"


def test_the_first_token_of_any_of_them_is_the_first() -> None:
    assert missed(sent(row(0, 0, ttft=500), row(1, 10, ttft=20), row(2, 31), row(3, 40))) == 2


def test_a_request_without_an_answer_never_has_the_prefix_ready() -> None:
    assert missed(sent(row(0, 0, ttft=None), row(1, 1_000_000))) == 2


def test_on_several_replicas_the_most_that_wait_at_a_time_may_miss_on_each() -> None:
    rows = sent(row(0, 0), row(1, 60), row(2, 200), row(3, 250), row(4, 260))
    assert missed(rows) == 2
    assert missed(rows, replicas=2) == 3


def excess(rows: list[tuple[Row, Request]], *, skew: int = 0, warm: bool = False) -> list[Excess]:
    before = frozenset({SYSTEM.key}) if warm else frozenset[object]()
    return too_warm(rows, PREFIXES, Servers(block=16), before=before, skew=skew)


def test_the_first_request_of_a_prefix_cannot_find_it() -> None:
    rows = sent(row(0, 0, cached=320), row(1, 10, cached=320))
    assert excess(rows) == [Excess(number=0, entry=0, found=320, explained=0)]
    assert excess(rows, warm=True) == []


def test_a_prompt_that_nobody_sent_before_can_only_be_found_up_to_its_shared_part() -> None:
    rows = sent(row(0, 0), row(1, 10, cached=336), row(5, 20, cached=368))
    assert excess(rows) == [Excess(number=1, entry=1, found=336, explained=320)]


@pytest.mark.parametrize(("skew", "explained"), [(0, False), (30, True)])
def test_who_was_first_is_not_known_within_the_skew_of_the_workers(
    skew: int, explained: bool
) -> None:
    rows = sent(row(0, 0, cached=320), row(1, 30))
    assert (excess(rows, skew=skew) == []) is explained


def test_a_server_that_tells_nothing_is_not_accused() -> None:
    assert excess(sent(row(0, 0, cached=None))) == []
