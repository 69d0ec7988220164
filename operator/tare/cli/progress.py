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

from tare.cli.units import clock, latency

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console, RenderableType

    from tare.cli.view import RunView

__all__ = ["Progress", "render"]

_BAR = 28
_PLAIN_SECONDS = 10.0
"""Plain lines repeat at this pace while nothing but numbers changes."""


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
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        """Begin the live display."""
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the live display away; what was said stays."""
        if self._live:
            self._live.stop()

    def say(self, text: str, style: str = "") -> None:
        """Print a line that stays, with the time since the start before it."""
        stamp = Text(f"{clock(self._now() - self._began):>5}  ", style="dim")
        self._console.print(stamp.append(Text(text, style=style or "default")), soft_wrap=True)

    def update(self, view: RunView) -> None:
        """Show where the run is now."""
        if self._live:
            self._live.update(render(view, width=self._console.width), refresh=True)
            return
        place = (view.phase, view.cell, str(view.trial), view.doing)
        due = self._now() - self._shown_at >= _PLAIN_SECONDS
        if place != self._shown or due:
            self._shown, self._shown_at = place, self._now()
            self.say(plain_line(view))


def plain_line(view: RunView) -> str:
    """One line for logs."""
    where = [f"{view.phase}: cell {_position(view)}"]
    if view.cell:
        where.append(f"({view.cell})")
    if view.doing:
        where.append(view.doing)
    return "  ".join([" ".join(where), *_numbers(view)])


def render(view: RunView, *, width: int) -> RenderableType:
    """Three lines for a terminal of `width` columns: where, numbers, and what stands in the way."""
    head = Table.grid(padding=(0, 2))
    done = view.fraction if view.fraction is not None else _done(view)
    rest = f"{done:4.0%}"
    if view.eta_seconds is not None:
        rest += f"  {clock(view.eta_seconds)} left"
    bar = ProgressBar(total=1.0, completed=done, width=min(_BAR, width // 3))
    head.add_row(Text(f"cell {_position(view)}", style="bold"), bar, rest)
    where = Text(no_wrap=True, overflow="ellipsis").append(f"{view.phase}", style="cyan")
    for part in (view.cell, view.doing):
        if part:
            where.append(f"  {part}")
    lines: list[RenderableType] = [head, where]
    if numbers := _numbers(view):
        lines.append(Text("   ".join(numbers), no_wrap=True, overflow="ellipsis"))
    if view.message and not view.finished:
        lines.append(Text(view.message, style="yellow"))
    return Group(*lines)


def _position(view: RunView) -> str:
    if not view.cells_total:
        return "-"
    current = min(view.cells_done + (not view.finished), view.cells_total)
    return f"{current} of {view.cells_total}"


def _done(view: RunView) -> float:
    return view.cells_done / view.cells_total if view.cells_total else 0.0


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
