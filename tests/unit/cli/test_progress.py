from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tare.api.reasons import RunPhase
from tare.cli.progress import Progress, render
from tare.cli.view import RunView, view_of, with_live
from tare.telemetry.metrics import Metrics
from tare.telemetry.run_series import LiveCell, RunName, RunState

STATUS = {
    "phase": "Running",
    "conditions": [{"type": "Accepted", "status": "True", "message": "4 cells"}],
    "progress": {
        "cells": "2/4",
        "cellsDone": 2,
        "cellsTotal": 4,
        "cellsFailed": 0,
        "percent": 55,
        "etaSeconds": 65,
        "cell": "rate=8 isl=2048",
        "trial": 1,
        "phase": "profiling",
        "requests": 120,
    },
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def exposition(run: str = "qwen") -> str:
    metrics = Metrics()
    name = RunName("bench", run)
    metrics.update_run(name, RunState(model="m", server="vllm", phase="Running", cells={}))
    metrics.show_live(
        name,
        LiveCell(
            cell="rate=8 isl=2048",
            phase="profiling",
            in_flight=9,
            issued=120,
            ok=110,
            failed=1,
            ttft_p50=0.112,
            ttft_p99=0.34,
        ),
    )
    return metrics.render().decode()


def live_view() -> RunView:
    return with_live(view_of(STATUS), exposition(), namespace="bench", run="qwen")


def text_of(view: RunView, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(render(view, width=width))
    return capture.get()


def plain(*views: tuple[float, RunView]) -> list[str]:
    """Lines that a log gets when it sees these views at these moments."""
    output, clock = io.StringIO(), Clock()
    with Progress(Console(file=output, width=60), now=clock) as progress:
        for moment, view in views:
            clock.now = moment
            progress.update(view)
    return output.getvalue().splitlines()


def test_a_status_becomes_where_the_run_is() -> None:
    view = view_of(STATUS)
    assert (view.cells_done, view.cells_total, view.cell) == (2, 4, "rate=8 isl=2048")
    assert (view.fraction, view.eta_seconds, view.finished) == (0.55, 65, False)


def test_an_empty_status_is_a_run_that_nobody_has_seen() -> None:
    assert view_of({}) == RunView(phase=RunPhase.PENDING)


def test_live_numbers_come_from_the_metrics_of_this_run_alone() -> None:
    view = live_view()
    assert (view.in_flight, view.ok, view.failed, view.ttft_p99) == (9, 110, 1, 0.34)
    other = with_live(view_of(STATUS), exposition("llama"), namespace="bench", run="qwen")
    assert other == view_of(STATUS)


def test_the_numbers_of_a_phase_that_is_over_are_not_shown() -> None:
    waiting = replace(view_of(STATUS), doing="the workers' results")
    assert with_live(waiting, exposition(), namespace="bench", run="qwen") == waiting


def test_the_message_says_why_a_run_does_not_go_on() -> None:
    waiting = {"type": "TargetReady", "status": "False", "message": "no pod of qwen is ready"}
    view = view_of({"phase": "Preparing", "conditions": [waiting]})
    assert view.message == "no pod of qwen is ready"
    assert "no pod of qwen is ready" in text_of(view, 80)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_display_fits_into_its_terminal(width: int) -> None:
    lines = text_of(live_view(), width).splitlines()
    assert 3 <= len(lines) <= 5
    assert all(len(line) <= width for line in lines)


def test_the_display_shows_cell_counts_latencies_and_the_time_left() -> None:
    text = text_of(live_view(), 120)
    for part in (
        "2 of 4 cells done",
        "55%",
        "1:05 left",
        "rate=8 isl=2048",
        "trial 2",
        "profiling",
    ):
        assert part in text
    assert "requests 120  ok 110  failed 1  in flight 9" in text
    assert "TTFT p50 112 ms  p99 340 ms" in text


def test_a_log_gets_one_line_for_each_step_and_not_for_each_look() -> None:
    first = live_view()
    second = replace(first, issued=130)
    third = replace(first, doing="the workers' results")
    lines = plain((0.0, first), (1.0, second), (2.0, third))
    assert len(lines) == 2
    assert "the workers' results" in lines[1]


def test_a_step_that_is_over_in_a_moment_is_no_line_of_its_own() -> None:
    first = live_view()
    lines = plain((0.0, first), (0.4, replace(first, doing="a short wait")), (0.8, first))
    assert len(lines) == 1


def test_a_log_hears_of_a_long_phase_now_and_then() -> None:
    view = live_view()
    lines = plain(*[(float(moment), view) for moment in range(31)])
    assert len(lines) == 4
    assert lines[-1].startswith(" 0:30  ")


def test_a_line_of_a_log_is_not_broken_at_the_width_of_a_terminal() -> None:
    [line] = plain((0.0, live_view()))
    assert len(line) > 60


def test_what_was_said_stays_and_is_nobodys_markup() -> None:
    output = io.StringIO()
    with Progress(Console(file=output), now=Clock()) as progress:
        progress.say("Accepted: [red]4 cells[/red]")
    assert "[red]4 cells[/red]" in output.getvalue()
