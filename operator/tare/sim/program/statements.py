"""The session's statements as segments of the kernel's state machine.

A segment ends where the session can wait or where its way forks. `labels[s]` is set to the label of
the next segment before a session leaves the kernel's inner loop, which later comes back there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tare.sim.program import syntax
from tare.sim.program.constants import is_constant
from tare.sim.program.expressions import Scope
from tare.sim.program.names import Names, walk
from tare.sim.program.source import Source
from tare.sim.program.syntax import Program
from tare.sim.program.waiting import admissions, queue_up, remember, start_job

if TYPE_CHECKING:
    from tare.sim.program.syntax import Block, Statement

__all__ = ["SessionWriter"]

_ROUNDS: Final = 100_000
"""Rounds of loops at one instant, over all sessions: beyond, time has come to a stop."""

_Held = tuple[str, ...]


def _can_wait(statement: Statement) -> bool:
    """Whether a session can wait somewhere in a statement, or jump back in it."""
    kinds = (syntax.RunStage, syntax.Hold, syntax.Loop)
    return any(isinstance(found, kinds) for found in walk((statement,)))


@dataclass(slots=True, kw_only=True)
class SessionWriter:
    """Cuts a session into segments and writes them."""

    program: Program
    names: Names
    scope: Scope
    turn: Callable[[Source], None]
    """Writes the workload's turn block."""
    tracked: bool
    """Whether samples remember their session and turn."""
    _segments: list[Source] = field(default_factory=list)
    _out: Source = field(default_factory=Source)

    def write(self, out: Source) -> None:
        """Write `if label == 0: …` and so on; each segment ends with `break` or `continue`."""
        self._open(self._reserve())
        self._block(self.program.session, ())
        self._end(())
        for label, segment in enumerate(self._segments):
            out.line(f"{'el' if label else ''}if label == {label}:")
            with out.indented():
                out.include(segment)

    def _reserve(self) -> int:
        self._segments.append(Source())
        return len(self._segments) - 1

    def _open(self, label: int) -> None:
        self._out = self._segments[label]

    def _go(self, label: int) -> None:
        self._out.line(f"label = {label}")
        self._out.line("continue")

    def _block(self, block: Block, held: _Held) -> None:
        for statement in block:
            with self._out.at(statement.place):
                self._statement(statement, held)

    def _statement(  # noqa: C901 - one case for each kind of statement
        self, statement: Statement, held: _Held
    ) -> None:
        scope, out = self._scope(held), self._out
        match statement:
            case syntax.Turn():
                self.turn(out)
            case syntax.End():
                self._end(held)
            case syntax.Set(name=name, value=value):
                out.line(f"a_{name}[s] = {scope.number(value)}")
            case syntax.Observe(name=name, value=value):
                self._observe(name, scope.number(value))
            case syntax.Drop(pool=pool):
                out.line(f"drop(p_{pool}, s, now)")
            case syntax.RunStage():
                self._remember()
                label = self._reserve()
                start_job(out, self.program, statement, scope, label)
                self._go(label)
                self._open(label)
            case syntax.Loop():
                self._loop(statement, held)
            case syntax.Branch(condition=condition, then=then, otherwise=otherwise):
                self._fork(scope.condition(condition), then, otherwise, held)
            case syntax.Chance(probability=probability, then=then, otherwise=otherwise):
                test = f"chance({scope.number(probability)}, {scope.draw})"
                if is_constant(probability, scope.constants):
                    test = f"{scope.draw} < {scope.number(probability)}"
                self._fork(test, then, otherwise, held)
            case syntax.Hold():
                self._hold(statement, held)

    def _scope(self, held: _Held) -> Scope:
        if not held:
            return self.scope
        return replace(self.scope, special={"cached": f"p_{held[-1]}.found[s]"})

    def _observe(self, name: str, value: str) -> None:
        self._out.line("if now >= warmup:")
        with self._out.indented():
            self._out.line(f"o_{name}.append({value})")
            if self.tracked:
                self._out.line(f"t_{name}.append(s << 20 | turn_numbers[s])")

    def _fork(self, test: str, then: Block, otherwise: Block, held: _Held) -> None:
        if not any(map(_can_wait, (*then, *otherwise))):
            self._choose(test, then, otherwise, held)
            return
        first, second, joined = self._reserve(), self._reserve(), self._reserve()
        self._out.line(f"label = {first} if {test} else {second}")
        self._out.line("continue")
        for label, block in ((first, then), (second, otherwise)):
            self._open(label)
            self._block(block, held)
            self._go(joined)
        self._open(joined)

    def _choose(self, test: str, then: Block, otherwise: Block, held: _Held) -> None:
        for head, block in ((f"if {test}:", then), ("else:", otherwise)):
            self._out.line(head)
            with self._out.indented():
                self._out.line("pass")
                self._block(block, held)

    def _loop(self, loop: syntax.Loop, held: _Held) -> None:
        head = self._reserve()
        self._go(head)
        self._open(head)
        self._block(loop.body, held)
        with self._out.at(loop.place):
            self._out.line("rounds += 1")
            self._out.line(f"if rounds > {_ROUNDS}:")
            self._out.line('    raise OverflowError("rounds", now)')
            self._go(head)
        # Nothing leads behind a loop; what stands there gets a segment that is never entered.
        self._open(self._reserve())

    def _hold(self, hold: syntax.Hold, held: _Held) -> None:
        label, pool = self._reserve(), f"p_{hold.pool}"
        queue_up(self._out, hold, self._scope(held), label)
        self._end(held)
        self._open(label)
        inside = (*held, hold.pool)
        declaration = next(p for p in self.program.pools if p.name == hold.pool)
        self._block(hold.body, inside)
        with self._out.at(hold.place):
            if hold.cache:
                self._out.line(f"units = {self._scope(inside).number(hold.cache)}")
                self._out.line("if not units >= 0.0:")
                what = "the units of a cache must be at least 0, and are"
                self._out.line(f'    raise ValueError("{what}", units)')
            self._out.line(f"release({pool}, s, now)")
            if hold.cache:
                most = f"min(units, {pool}.need[s])"
                self._out.line(f"kept = full_blocks({most}, block_{hold.pool})")
                self._out.line(f"keep({pool}, s, kept, now)")
                remember(self._out, declaration, self.names)
        admissions(self._out, declaration, self.scope, self.names)

    def _remember(self) -> None:
        for pool in self.program.pools:
            remember(self._out, pool, self.names)

    def _end(self, held: _Held) -> None:
        """Write the end of a session; units that it holds go back."""
        for pool in held:
            self._out.line(f"release(p_{pool}, s, now)")
        self._out.line("shift(live, 0, -1.0, now)")
        self._out.line("if now >= warmup:")
        self._out.line("    ended += 1")
        if self.program.arrivals.kind == "closed":
            self._out.line("order += 1")
            self._out.line("heappush(heap, (now, order, 0, 0))")
        self._out.line("break")
