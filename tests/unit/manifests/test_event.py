"""Events: short enough for the API server, and told once however often they are written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.golden import assert_golden
from support.manifest_builder import OWNER
from support.strict_kubernetes import assert_valid
from tare.decide.actions import Event
from tare.manifests.event import build_event

GOLDEN = Path(__file__).parent / "golden"
NOW = 1_800_000_000.25
MEASURED = Event(reason="CellMeasured", message="cell 0 (rate=4): TTFT p50 90 ms")


def test_the_event_is_the_one_that_was_reviewed() -> None:
    event = build_event(OWNER, MEASURED, now=NOW)
    assert_golden(GOLDEN / "event.yaml", event)
    assert_valid(event)


def test_a_warning_is_marked_as_one() -> None:
    assert build_event(OWNER, replace(MEASURED, warning=True), now=NOW)["type"] == "Warning"
    assert build_event(OWNER, MEASURED, now=NOW)["type"] == "Normal"


def test_writing_an_event_again_gives_the_same_name_and_another_event_another() -> None:
    name = build_event(OWNER, MEASURED, now=NOW)["metadata"]["name"]
    assert build_event(OWNER, MEASURED, now=NOW)["metadata"]["name"] == name
    for other in (replace(MEASURED, message="cell 1"), replace(MEASURED, reason="Finished")):
        assert build_event(OWNER, other, now=NOW)["metadata"]["name"] != name
    assert build_event(OWNER, MEASURED, now=NOW + 1)["metadata"]["name"] != name


def test_b105_a_huge_message_is_cut() -> None:
    event = build_event(OWNER, Event(reason="CellFailed", message="x" * 100_000), now=NOW)
    assert len(event["message"]) == 1024


def test_b110_an_odd_run_name_gives_a_valid_event_about_that_run() -> None:
    for run in ("demo.test", "a" * 253):
        event = build_event(replace(OWNER, name=run), MEASURED, now=NOW)
        assert event["involvedObject"]["name"] == run
        assert len(event["metadata"]["name"]) <= 63
        assert_valid(event)
