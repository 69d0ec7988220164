"""From a checked program to the source of its kernel: one function, the whole event loop.

A session is a state machine: its statements are cut into segments at every point where it can wait
(for units of a pool, for a stage), and `labels` says in which segment each session goes on. The
kernel works with the functions of `sim.core` and runs in plain Python or through numba; constants
are arguments, so that a sweep compiles once.

An event is (time, order of scheduling, kind, session). Sessions that may go on at this instant wait
in `ready`; admissions are tried after each release and when `ready` has run out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.sim.program import syntax
from tare.sim.program.errors import Place
from tare.sim.program.expressions import Scope
from tare.sim.program.source import Source
from tare.sim.program.statements import SessionWriter
from tare.sim.program.waiting import FIRST_STAGE, admissions, key_attributes, make_ready, reschedule

if TYPE_CHECKING:
    from tare.sim.program.names import Names
    from tare.sim.program.syntax import Block, Program

__all__ = ["Kernel", "Options", "emit"]

ARRIVAL: Final = 0
WARM: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which kernel of a program is wanted."""

    keyed: bool
    """Random numbers by (seed, session, turn) instead of streams read in order."""
    compiled: bool
    """For numba, which cannot call Python's iterators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The source of a kernel and where each of its lines comes from."""

    source: str
    places: Mapping[int, Place]
    """Lines, counted from 1, that a statement of the program caused."""


def emit(
    program: Program, names: Names, constants: Mapping[str, float], options: Options
) -> Kernel:
    """Write the kernel of a program; of `constants` only the names matter."""
    emitter = _Emitter(program, names, constants, options)
    emitter.write()
    return Kernel(source=emitter.out.text(), places=emitter.out.places)


class _Emitter:
    def __init__(
        self, program: Program, names: Names, constants: Mapping[str, float], options: Options
    ) -> None:
        self.out = Source()
        self._program = program
        self._names = names
        self._constants = constants
        self._options = options

    def write(self) -> None:
        out = self.out
        out.line("def kernel(values, settings, keys):")
        with out.indented():
            self._prologue()
            out.line("while len(heap) > 0:")
            with out.indented():
                self._event()
                self._drain()
            self._result()

    def _scope(self, stream: str) -> Scope:
        """Scope of the streams "arrivals", "workload" and "sessions"."""
        if self._options.keyed:
            draw = {
                "arrivals": "next_keyed(arrival_key, arrivals)",
                "workload": "next_of_turn(turn_keys, places, s, 0)",
                "sessions": "next_of_turn(turn_keys, places, s, 1)",
            }[stream]
        else:
            name = f"stream_{stream}"
            draw = f"next_ordered({name})" if self._options.compiled else f"{name}()"
        return Scope(constants=self._constants, truths=self._names.truths, draw=draw)

    def _prologue(self) -> None:
        out, program = self.out, self._program
        for index, name in enumerate(self._constants):
            out.line(f"c_{name} = values[{index}]")
        out.line("horizon, warmup, max_steps, seed = settings")
        out.line("events = arrivals = ended = turns = order = rounds = 0")
        out.line("now = 0.0")
        out.line("live = [0.0, 0.0]")
        out.line("labels = [0]")
        out.line("ready = [0]")
        out.line("filled = 0")
        for name in self._names.attributes:
            out.line(f"a_{name} = [nan]")
        for name in self._names.observations:
            out.line(f"o_{name} = [0.0]")
            out.line(f"o_{name}.clear()")
            out.line(f"t_{name} = [0]")
            out.line(f"t_{name}.clear()")
        scope = self._scope("arrivals")
        for pool in program.pools:
            out.line(f"p_{pool.name} = new_pool()")
            out.line(f"cap_{pool.name} = {scope.number(pool.cap) if pool.cap else 'inf'} + 0.0")
            out.line(
                f"block_{pool.name} = {scope.number(pool.block) if pool.block else '0.0'} + 0.0"
            )
            out.line(f"most_{pool.name} = [0.0]")
            for name in key_attributes(pool, self._names):
                out.line(f"k_{pool.name}_{name} = [nan]")
        for stage in program.stages:
            out.line(f"s_{stage.name} = new_stage()")
            if stage.kind == "fifo":
                servers = scope.number(stage.argument) if stage.argument else "1"
                out.line(f"servers_{stage.name} = int({servers})")
            if stage.kind == "ps":
                out.line(f"version_{stage.name} = 0")
                out.line(f"rate_{stage.name} = 1.0")
        self._streams()
        self._first_events()

    def _streams(self) -> None:
        out = self.out
        if self._options.keyed:
            out.line("arrival_key = key_of(seed, 0)")
            out.line("session_keys = [0]")
            out.line("turn_keys = [0]")
            out.line("turn_numbers = [0]")
            out.line("places = [0, 0]")
        elif self._options.compiled:
            for index, name in enumerate(("arrivals", "workload", "sessions")):
                out.line(f"stream_{name} = new_ordered(keys[{index}])")
        else:
            out.line("stream_arrivals, stream_workload, stream_sessions = keys")

    def _first_events(self) -> None:
        out, arrivals = self.out, self._program.arrivals
        scope, kind = self._scope("arrivals"), arrivals.kind
        first, sessions = "0.0", "1"
        if kind == "renewal":
            first = "gap"
            self._gap()
        elif kind in ("batch", "closed"):
            sessions = f"int({scope.number(arrivals.argument)})"
        out.line(f"heap = [({first}, 1, {ARRIVAL}, 0)]")
        out.line(f"for order in range(2, {sessions} + 1):")
        out.line(f"    heappush(heap, ({first}, order, {ARRIVAL}, 0))")
        out.line(f"order = {sessions}")
        out.line("if warmup > 0:")
        out.line(f"    heappush(heap, (warmup, 0, {WARM}, 0))")

    def _gap(self) -> None:
        """Write the draw of the gap to the next arrival."""
        out, argument = self.out, self._program.arrivals.argument
        with out.at(argument.place):
            out.line(f"gap = {self._scope('arrivals').number(argument)} + 0.0")
            out.line("if not gap >= 0.0:")
            out.line(
                '    raise ValueError("a gap between arrivals must be at least 0, and is", gap)'
            )

    def _event(self) -> None:
        out = self.out
        out.line("if heap[0][0] > horizon:")
        out.line("    break")
        out.line("now, _, kind, s = heappop(heap)")
        out.line("events += 1")
        out.line("rounds = 0")
        out.line("filled = 0")
        out.line("if order > max_steps:")
        out.line('    raise OverflowError("steps", now)')
        out.line(f"if kind == {ARRIVAL}:")
        with out.indented():
            self._arrival()
        for index, stage in enumerate(self._program.stages):
            out.line(f"elif kind == {FIRST_STAGE + index}:")
            with out.indented():
                self._finish(stage, FIRST_STAGE + index)
        out.line("else:")
        with out.indented():
            self._warm()

    def _arrival(self) -> None:
        out, arrivals = self.out, self._program.arrivals
        scope = self._scope("arrivals")
        out.line("arrivals += 1")
        gap = ""
        if arrivals.kind == "poisson":
            gap = f"log(1.0 - {scope.draw}) / {scope.number(arrivals.argument)}"
            out.line("order += 1")
            out.line(f"heappush(heap, (now - {gap}, order, {ARRIVAL}, 0))")
        elif arrivals.kind == "renewal":
            self._gap()
            out.line("order += 1")
            out.line(f"heappush(heap, (now + gap, order, {ARRIVAL}, 0))")
        else:  # these are part of the start and of the end of a session, no events of their own
            out.line("events -= 1")
        out.line("s = arrivals")
        out.line("shift(live, 0, 1.0, now)")
        out.line("labels.append(0)")
        for name in self._names.attributes:
            out.line(f"a_{name}.append(nan)")
        for pool in self._program.pools:
            out.line(f"add_session(p_{pool.name})")
            out.line(f"most_{pool.name}.append(0.0)")
        for stage in self._program.stages:
            out.line(f"add_job(s_{stage.name})")
        if self._options.keyed:
            out.line("session_keys.append(key_of(seed, s))")
            out.line("turn_keys.append(turn_key(session_keys[s], 0))")
            out.line("turn_numbers.append(0)")
            out.line("places.append(0)")
            out.line("places.append(SECOND)")
        self._sets(out, self._program.init)
        make_ready(out, "s")

    def _sets(self, out: Source, block: Block) -> None:
        """Write the statements of a workload's block."""
        scope = self._scope("workload")
        for statement in block:
            assert isinstance(statement, syntax.Set)
            with out.at(statement.place):
                out.line(f"a_{statement.name}[s] = {scope.number(statement.value)}")

    def _finish(self, stage: syntax.StageDeclaration, kind: int) -> None:
        out, name = self.out, stage.name
        if stage.kind == "ps":
            self._finish_shared(stage, kind)
            return
        out.line(f"complete(s_{name}, s, now, warmup)")
        if stage.kind == "fifo":
            out.line(f"following = next_in_line(s_{name})")
            out.line("if following != 0:")
            with out.indented():
                out.line(f"begin(s_{name}, following, now)")
                out.line("order += 1")
                work = f"s_{name}.work[following]"
                out.line(f"heappush(heap, (now + {work}, order, {kind}, following))")
        make_ready(out, "s")

    def _finish_shared(self, stage: syntax.StageDeclaration, kind: int) -> None:
        """Only the newest completion counts; a job that came since has changed the others."""
        out, name = self.out, stage.name
        out.line(f"if s == version_{name}:")
        with out.indented():
            out.line(f"serve_shared(s_{name}, rate_{name}, now)")
            out.line(f"s = leave_shared(s_{name}, now, warmup)")
            make_ready(out, "s")
            reschedule(out, stage, kind, self._scope("arrivals"))

    def _warm(self) -> None:
        out = self.out
        out.line("restart(live, now)")
        for pool in self._program.pools:
            out.line(f"restart(p_{pool.name}.levels, now)")
        for stage in self._program.stages:
            out.line(f"restart(s_{stage.name}.levels, now)")

    def _drain(self) -> None:
        """Let every session that is ready go on, and admit, until nothing moves at this instant."""
        out = self.out
        out.line("at = 0")
        out.line("while True:")
        with out.indented():
            out.line("while at < filled:")
            with out.indented():
                out.line("s = ready[at]")
                out.line("at += 1")
                out.line("label = labels[s]")
                out.line("while True:")
                with out.indented():
                    SessionWriter(
                        program=self._program,
                        names=self._names,
                        scope=self._scope("sessions"),
                        turn=self._turn,
                        tracked=self._options.keyed,
                    ).write(out)
            for pool in self._program.pools:
                admissions(out, pool, self._scope("sessions"), self._names)
            out.line("if at == filled:")
            out.line("    break")

    def _turn(self, out: Source) -> None:
        out.line("if now >= warmup:")
        out.line("    turns += 1")
        if self._options.keyed:
            out.line("start_turn(session_keys, turn_keys, turn_numbers, places, s)")
        self._sets(out, self._program.turn)

    def _result(self) -> None:
        out, program = self.out, self._program
        out.line("counts = [events, arrivals, ended, turns]")
        pools = "".join(
            f"(p_{p.name}.levels, p_{p.name}.counts, p_{p.name}.sums), " for p in program.pools
        )
        stages = "".join(
            f"(s_{s.name}.levels, s_{s.name}.counts, s_{s.name}.sums), " for s in program.stages
        )
        samples = "".join(f"(o_{name}, t_{name}), " for name in self._names.observations)
        out.line(f"return counts, live, ({pools}), ({stages}), ({samples})")
