"""Watching a run: a live display on a terminal, plain lines everywhere else.

Both show the same: what happened (the run's Events, one line each) and where it is now. Lines go to
standard error in CI logs as in terminals, so that standard output holds the results alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tare.results.units import clock, latency

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console, RenderableType

    from tare.cli.view import RunView

__all__ = ["Progress", "render"]

_BAR = 28
_STEP_SECONDS = 1.0
"""A log hears of a step when the last line is this old: most waits are shorter."""
_REPEAT_SECONDS = 10.0
"""It hears of numbers at this pace while nothing else changes."""


class Progress:
    """Shows one run on `console` until it is left."""

    def __init__(self, console: Console, *, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self._began = now()
        self._live = (
            Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False)
            if console.is_terminal
            else None
        )
        self._shown: tuple[str, ...] = ()
        self._shown_at = -_STEP_SECONDS

    def __enter__(self) -> Self:
        """Begin the live display."""
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the live display away; what was said stays."""
        if self._live:
            self._live.stop()

    def say(self, text: str, style: str = "default") -> None:
        """Print a line that stays, with the time since the start before it.

        A terminal gets long ones wrapped below their beginning, a log gets them whole.
        """
        stamp, body = f"{clock(self._now() - self._began):>5}", Text(text, style=style)
        if not self._live:
            self._console.print(Text(f"{stamp}  ").append(body), soft_wrap=True)
            return
        row = Table.grid(padding=(0, 2))
        row.add_row(Text(stamp, style="dim"), body)
        self._console.print(row)

    def update(self, view: RunView) -> None:
        """Show where the run is now."""
        if self._live:
            self._live.update(render(view, width=self._console.width), refresh=True)
            return
        place = (view.phase, view.cell, str(view.trial), view.doing)
        since = self._now() - self._shown_at
        if since >= (_REPEAT_SECONDS if place == self._shown else _STEP_SECONDS):
            self._shown, self._shown_at = place, self._now()
            self.say(plain_line(view))


def plain_line(view: RunView) -> str:
    """One line for logs."""
    return "  ".join([_where(view), f"({_cells(view)})", *_numbers(view)])


def render(view: RunView, *, width: int) -> RenderableType:
    """Three lines for a terminal of `width` columns: how far, where, and the numbers so far."""
    head = Table.grid(padding=(0, 2))
    done = view.fraction or 0.0
    rest = f"{done:4.0%}"
    if view.eta_seconds is not None:
        rest += f"  {clock(view.eta_seconds)} left"
    bar = ProgressBar(total=1.0, completed=done, width=min(_BAR, width // 3))
    head.add_row(bar, Text(rest), Text(_cells(view)))
    lines: list[RenderableType] = [head, _line(_where(view), style="cyan")]
    if numbers := _numbers(view):
        lines.append(_line("   ".join(numbers)))
    if view.message and not view.finished:
        lines.append(Text(view.message, style="yellow"))
    return Group(*lines)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _where(view: RunView) -> str:
    trial = f"trial {view.trial + 1}" if view.cell else ""
    return "  ".join(filter(None, (f"{view.phase}:", view.cell, trial, view.doing)))


def _cells(view: RunView) -> str:
    text = f"{view.cells_done} of {view.cells_total} cells done"
    return f"{text}, {view.cells_failed} failed" if view.cells_failed else text


def _numbers(view: RunView) -> list[str]:
    if not view.issued:
        return []
    numbers = [
        (
            f"requests {view.issued:,}  ok {view.ok:,}  failed {view.failed:,}"
            f"  in flight {view.in_flight:,}"
        )
    ]
    if view.ttft_p50 is not None:
        numbers.append(f"TTFT p50 {latency(view.ttft_p50)}  p99 {latency(view.ttft_p99)}")
    return numbers
