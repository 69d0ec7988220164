"""Sessions in classes: as many as one by one, and a plan that is equal to the token."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest_builder import order_of, phase
from support.measured import phase_result
from tare.measure.rows import Rows
from tare.plan.cache.classes import Classes, Copies, Scope, scope_of
from tare.plan.cache.expected import CacheState, Expected, Request, Servers
from tare.plan.cache.outline import Frame, MarkerOutline, Outline, Shape, compact
from tare.plan.cache.plan import CacheSettings, plan_after, plan_before
from tare.plan.cache.prefixes import Prefixes
from tare.plan.cache.requests import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.plan.cache.prefixes import Mark
    from tare.plan.order import PhaseOrder

SHAPES = (
    Shape(turns=((60, 4),)),
    Shape(turns=((33, 4), (20, 9))),
    Shape(turns=((60, 4),), group=1),
)
MARKERS = [
    MarkerOutline(kind=kind, in_system=in_system, at_end=at_end, tokens=9, by_phase=by_phase)
    for kind in ("rid", "warmup")
    for in_system in (False, True)
    for at_end in (False, True)
    for by_phase in (False, True)
]
SALT = MarkerOutline(kind="rid", in_system=False, at_end=False, tokens=0, salt=True)


@given(
    entries=st.integers(1, 9),
    ends=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    data=st.data(),
)
def test_classes_hold_every_session_once_and_those_alike_together(
    entries: int, ends: list[int], data: st.DataObject
) -> None:
    kinds = data.draw(st.lists(st.integers(0, 2), min_size=entries, max_size=entries))
    classes = Classes(entries, [len([*same]) for _, same in groupby(kinds)], ends)
    for end in ends:
        found = [*classes.first(end)]
        members = [
            (one.recycle_pass + later) * entries + one.entry + place
            for one in found
            for later in range(one.passes)
            for place in range(one.entries)
        ]
        assert sorted(members) == [*range(end)]
        for one in found:
            assert len({kinds[e] for e in range(one.entry, one.entry + one.entries)}) == 1
            key = classes.representative((("rid", one.recycle_pass, one.entry),))
            for later in range(one.passes):
                for entry in range(one.entry, one.entry + one.entries):
                    other = (("rid", one.recycle_pass + later, entry),)
                    assert classes.representative(other) == key
                    question = classes.representative((("question", entry), "whole"))
                    assert question == (("question", one.entry), "whole")


@pytest.mark.parametrize(
    ("key", "scope"),
    [
        ((), Scope.ALL),
        (("system", ("pool", 3)), Scope.ALL),
        (("salt", ("warmup",)), Scope.ALL),
        (("system", ("question", 3), "whole"), Scope.ENTRY),
        ((("context", 3),), Scope.ENTRY),
        (("salt", ("rid", 0, 3)), Scope.SESSION),
        ((("question", 3), ("rid", 1, 3, "profiling"), 0, "whole"), Scope.SESSION),
    ],
)
def test_the_key_of_a_level_says_who_has_it_in_common(key: Any, scope: Scope) -> None:
    assert scope_of(key) is scope


def order_of_phases(kind: str, sessions: Sequence[int]) -> tuple[PhaseOrder, ...]:
    unit = "sessions" if kind == "sessions" else "requests"
    loads = {"type": kind, "requests": None, unit: 1}
    documents = [
        phase(name=f"p{n}", kind="warmup" if n == 0 else "profiling", **loads)
        for n in range(len(sessions))
    ]
    phases = order_of(phases=documents).phases
    if kind == "sessions":
        return tuple(replace(one, sessions=n) for one, n in zip(phases, sessions, strict=True))
    return tuple(replace(one, requests=n) for one, n in zip(phases, sessions, strict=True))


def one_by_one(outline: Outline, one: PhaseOrder, count: int) -> list[Request]:
    """Every request of the first sessions, in their order."""
    shapes, marker = outline.shapes(), outline.marker
    found = []
    for number in range(count):
        passed, entry = divmod(number, outline.entries)
        mark: Mark | None = None
        if marker is not None and marker.kind == "rid":
            mark = ("rid", passed, entry, *([one.name] if marker.by_phase else []))
        elif marker is not None and one.kind == "warmup":
            mark = ("warmup",)
        turns = len(shapes[entry].turns) if one.type == "sessions" else 1
        found += [Request(entry, turn, mark) for turn in range(turns)]
    return found


PARTS = st.fixed_dictionaries(
    {
        "system": st.sampled_from((0, 50)),
        "context": st.sampled_from((0, 40)),
        "pool": st.sampled_from((0, 37)),
        "alike": st.integers(0, 2),
        "exact": st.booleans(),
        "frame": st.none() | st.just(Frame(starts=(3, 8, 13), total=17, turn=9, tail=3)),
        "marker": st.none() | st.sampled_from([*MARKERS, SALT]),
    }
)


def outline_of(shapes: Sequence[Shape], parts: dict[str, Any]) -> Outline:
    runs, described = compact((1, shape) for shape in shapes)
    return Outline(entries=len(shapes), runs=runs, described=described, **parts)


DATASETS = st.builds(outline_of, st.lists(st.sampled_from(SHAPES), min_size=1, max_size=8), PARTS)
SERVERS = st.builds(
    Servers,
    block=st.sampled_from((1, 16)),
    replicas=st.integers(1, 3),
    blocks=st.none() | st.sampled_from((40, 400)),
)


def whole(
    outline: Outline,
    phases: Sequence[PhaseOrder],
    requests: Sequence[Sequence[Request]],
    servers: Servers,
    *,
    repeat: bool,
) -> list[Expected]:
    """The plan with every request looked at."""
    prefixes, state = Prefixes(outline, answers_repeat=repeat), CacheState(servers)
    return [
        state.phase(prefixes, sent, together=one.concurrency)
        for one, sent in zip(phases, requests, strict=True)
    ]


@settings(max_examples=300, deadline=None)
@given(
    outline=DATASETS,
    kind=st.sampled_from(("concurrency", "sessions")),
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=4),
    servers=SERVERS,
    repeat=st.booleans(),
)
def test_a_plan_by_classes_is_the_plan_of_every_request(
    *, outline: Outline, kind: str, counts: list[int], servers: Servers, repeat: bool
) -> None:
    phases = order_of_phases(kind, counts)
    plan = CacheSettings(servers=servers, at_start=True, answers_repeat=repeat)
    requests = [one_by_one(outline, *pair) for pair in zip(phases, counts, strict=True)]
    expected = whole(outline, phases, requests, servers, repeat=repeat)
    found = [one.expected for one in plan_before(outline, phases, plan)]
    assert found == expected


@settings(max_examples=200, deadline=None)
@given(
    outline=DATASETS,
    kind=st.sampled_from(("concurrency", "sessions")),
    issued=st.lists(st.integers(1, 30), min_size=2, max_size=3),
    recorded=st.lists(st.booleans(), min_size=3, max_size=3),
    servers=SERVERS,
)
def test_phases_with_and_without_records_know_of_each_other(
    *,
    outline: Outline,
    kind: str,
    issued: list[int],
    recorded: list[bool],
    servers: Servers,
) -> None:
    """The records of some phases are whole; of the others only their number is known."""
    phases = order_of_phases(kind, [40] * len(issued))
    requests = [one_by_one(outline, one, 40)[:n] for one, n in zip(phases, issued, strict=True)]
    results = []
    for one, sent, kept in zip(phases, requests, recorded, strict=False):
        rows = Rows()
        for number, request in enumerate(sent if kept else ()):
            # All at one moment: the records bound nothing that the concurrency does not.
            rows.add_all([[number], [request.entry], *[[0]] * 2, *[[-1]] * 4, [0]])
        counts = {"issued": len(sent), "ok": len(sent)}
        result = phase_result(name=one.name, kind=one.kind, counts=counts, histograms={})
        results.append(replace(result, rows=rows.to_json() if kept else {}))
    plan = CacheSettings(servers=servers, at_start=True, answers_repeat=True)
    whole_sessions = kind != "sessions" or all(
        sent[-1].turn + 1 == len(outline.shapes()[sent[-1].entry].turns) for sent in requests
    )
    found = [p.expected for p in plan_after(outline, phases, plan, results=results, skew={})]
    expected = whole(outline, phases, requests, servers, repeat=True)
    for got, exact in zip(found, expected, strict=True):
        assert got is not None
        assert (got.high, got.requests, got.parts) == (exact.high, exact.requests, exact.parts)
        assert got.low == exact.low or (not whole_sessions and got.low < exact.low)


def test_what_a_class_stands_for_is_counted_once() -> None:
    outline = outline_of(SHAPES, {"exact": True})
    workload = Workload(outline, Prefixes(outline, answers_repeat=True), senders=1)
    (sent,) = workload.planned(order_of_phases("concurrency", [1, 3_000_001])[1:]).phases
    assert sum(copies.total for copies in sent.requests.values()) == 3_000_001
    assert Counter(sent.requests.values()) == {Copies(1_000_000): 2, Copies(1_000_001): 1}
