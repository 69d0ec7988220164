"""What a worker tells the operator of its dataset, for the cache plan."""

from __future__ import annotations

from typing import Any

import pytest

from support.manifest_builder import order_of, phase
from tare.measure.messages import Identity, Register
from tare.measure.wire import decode, encode
from tare.plan.cache.outline import MarkerOutline, Outline
from tare.workload.dataset import conversations
from tare.workload.describe import describe

LIMIT = 200_000
"""Bytes of a registration."""


def registered(**dataset: Any) -> tuple[bytes, Outline]:
    """The first worker's registration, and what the operator reads of it."""
    fields: dict[str, Any] = {"requests": 10}
    if "turns" in dataset:
        fields = {"type": "sessions", "requests": None, "sessions": 4}
    order = order_of(dataset=dataset, phases=[phase(**fields)])
    description = describe(order.dataset, conversations(order), chat=True)
    who = Identity(run_uid="u", cell=0, trial=0, attempt=1, index=0, pod_uid="p", pod_name="w")
    message = encode(Register(worker=who, dataset=description))
    outline = Outline.from_json(decode(Register, message).dataset["outline"])
    assert outline is not None
    return message, outline


@pytest.mark.parametrize("isl", [512, {"mean": 512, "stddev": 100}, {"min": 1000, "max": 9999}])
def test_a_registration_stays_small_whatever_the_dataset(isl: Any) -> None:
    message, outline = registered(entries=1_000_000, prompts={"isl": isl, "osl": 128})
    assert len(message) < LIMIT
    assert outline.described == (1_000_000 if isl == 512 else len(outline.shapes()))
    assert outline.described > 10_000


def test_lengths_are_those_that_the_prompts_have() -> None:
    dataset = {"entries": 3, "prompts": {"isl": {"min": 40, "max": 90}, "osl": 8}}
    _, outline = registered(**dataset)
    order = order_of(dataset=dataset, phases=[phase(requests=3)])
    texts = conversations(order)
    words = [len(texts.messages(entry, None)[0]["content"].split()) for entry in range(3)]
    assert [shape.turns for shape in outline.shapes()] == [((count, 8),) for count in words]


def test_prefixes_and_markers_are_described_and_no_text_is_sent() -> None:
    message, outline = registered(
        entries=6,
        prompts={"isl": 100, "osl": 8, "cacheBust": {"target": "system_suffix"}},
        prefixPrompts={"systemPrompt": "A secret recipe of forty characters, ok."},
    )
    assert b"recipe" not in message
    assert (outline.system, outline.verbatim, outline.exact) == (10, True, False)
    assert outline.marker == MarkerOutline(
        kind="rid", in_system=True, at_end=True, tokens=16, less=0, more=0
    )


def test_a_session_takes_a_prefix_of_the_pool_and_has_its_turns() -> None:
    _, outline = registered(
        entries=8,
        prompts={"isl": 100, "osl": 8},
        prefixPrompts={"poolSize": 2, "poolLength": 50},
        turns={"mean": 1.5},
    )
    shapes = outline.shapes()
    assert {shape.group for shape in shapes} == {0, 1}
    assert {len(shape.turns) for shape in shapes} == {1, 2}
