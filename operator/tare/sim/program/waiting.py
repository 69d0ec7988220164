"""Where sessions wait: the kernel's code for jobs at stages and for holds of pools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tare.sim.program import syntax
from tare.sim.program.constants import parts

if TYPE_CHECKING:
    from tare.sim.program.expressions import Scope
    from tare.sim.program.names import Names
    from tare.sim.program.source import Source

__all__ = [
    "FIRST_STAGE",
    "admissions",
    "key_attributes",
    "make_ready",
    "queue_up",
    "remember",
    "reschedule",
    "start_job",
]

FIRST_STAGE: Final = 2
"""Kind of the events of the first stage; 0 is an arrival, 1 the end of the warm-up."""

_EVERYBODY: Final = 1 << 60


def make_ready(out: Source, session: str) -> None:
    """Write that a session may go on; the list is never shortened, which numba does slowly."""
    out.line("if filled == len(ready):")
    out.line("    ready.append(0)")
    out.line(f"ready[filled] = {session}")
    out.line("filled += 1")


def start_job(
    out: Source, program: syntax.Program, run: syntax.RunStage, scope: Scope, label: int
) -> None:
    """Write the start of a job, after which the session waits; one without work goes on."""
    index = next(i for i, stage in enumerate(program.stages) if stage.name == run.stage)
    stage, kind, name = program.stages[index], FIRST_STAGE + index, f"s_{run.stage}"
    out.line(f"work = {scope.number(run.work)}")
    out.line("if not work >= 0.0:")
    out.line('    raise ValueError("the work of a run must be at least 0 s, and is", work)')
    out.line("if work > 0.0:")
    with out.indented():
        out.line(f"labels[s] = {label}")
        if stage.kind == "ps":
            out.line(f"serve_shared({name}, rate_{run.stage}, now)")
            out.line("order += 1")
            out.line(f"share({name}, s, work, order, now)")
            reschedule(out, stage, kind, scope)
        else:
            servers = f"servers_{run.stage}" if stage.kind == "fifo" else str(_EVERYBODY)
            out.line(f"if join({name}, s, work, {servers}, now):")
            out.line("    order += 1")
            out.line(f"    heappush(heap, (now + work, order, {kind}, s))")
        out.line("break")
    out.line(f"pass_through({name}, now, warmup)")


def reschedule(out: Source, stage: syntax.StageDeclaration, kind: int, scope: Scope) -> None:
    """Write the next completion of a `ps` stage; those scheduled before become void."""
    name = f"s_{stage.name}"
    assert stage.argument is not None
    rate = replace(scope, special={"n": f"float(len({name}.marks))"}).number(stage.argument)
    out.line(f"version_{stage.name} += 1")
    out.line(f"if len({name}.marks) > 0:")
    with out.indented(), out.at(stage.argument.place):
        out.line(f"rate_{stage.name} = {rate} + 0.0")
        out.line(f"if not rate_{stage.name} > 0.0:")
        out.line(f'    raise ValueError("a rate must be more than 0, and is", rate_{stage.name})')
        out.line("order += 1")
        left = f"remaining_shared({name}, rate_{stage.name})"
        out.line(f"heappush(heap, (now + {left}, order, {kind}, version_{stage.name}))")


def queue_up(out: Source, hold: syntax.Hold, scope: Scope, label: int) -> None:
    """Write how a session asks for units; what follows is for one whose hold is refused."""
    name, pool = hold.pool, f"p_{hold.pool}"
    out.line(f"need = whole_blocks({scope.number(hold.units)}, block_{name})")
    out.line("if not need >= 0.0:")
    out.line('    raise ValueError("the units of a hold must be at least 0, and are", need)')
    most = "-1.0" if hold.cache is None else "inf"
    out.line(f"most_{name}[s] = {scope.number(hold.reuse) if hold.reuse else most}")
    out.line(f"if need <= cap_{name} + EPSILON:")
    with out.indented():
        out.line(f"labels[s] = {label}")
        out.line(f"enqueue({pool}, s, need, now)")
        out.line("break")
    out.line(f"{pool}.counts[REJECTED] += 1")


def admissions(out: Source, pool: syntax.PoolDeclaration, scope: Scope, names: Names) -> None:
    """Write the admission of everybody at the head of a pool's queue who fits."""
    name, state = pool.name, f"p_{pool.name}"
    out.line(f"while {state}.after[0] != 0:")
    with out.indented():
        out.line(f"if not fits({state}, {state}.need[{state}.after[0]], cap_{name}):")
        out.line("    break")
        out.line(f"h = take_head({state}, now, warmup)")
        out.line(f"need = {state}.need[h]")
        out.line(f"consume({state}, h, most_{name}[h], block_{name}, now)")
        if pool.evict_by:
            _evict_by(out, pool, scope, names)
        else:
            out.line(f"evict_oldest({state}, need, cap_{name}, block_{name}, now)")
        out.line(f"occupy({state}, h, need, now)")
        make_ready(out, "h")


def remember(out: Source, pool: syntax.PoolDeclaration, names: Names) -> None:
    """Write that keys of an eviction read the attributes that a session has when it waits.

    What it sets right after a release still counts, what it draws for its next turn does not.
    """
    for name in key_attributes(pool, names):
        kept = f"k_{pool.name}_{name}"
        out.line(f"while len({kept}) < len(p_{pool.name}.size):")
        out.line(f"    {kept}.append(nan)")
        out.line(f"if p_{pool.name}.entry[s] != 0:")
        out.line(f"    {kept}[p_{pool.name}.entry[s]] = a_{name}[s]")


def key_attributes(pool: syntax.PoolDeclaration, names: Names) -> list[str]:
    """Return the attributes that a pool's eviction reads."""
    read: dict[str, None] = {}
    waiting = list(pool.evict_by)
    while waiting:
        expression = waiting.pop()
        waiting += parts(expression)
        if isinstance(expression, syntax.Name) and expression.name in names.attributes:
            read[expression.name] = None
    return list(read)


def _evict_by(out: Source, pool: syntax.PoolDeclaration, scope: Scope, names: Names) -> None:
    """Write evictions in ascending order of keys, equal ones by the time of their release."""
    name, state = pool.name, f"p_{pool.name}"
    known = {key: f"k_{name}_{key}[v]" for key in key_attributes(pool, names)} | {
        "size": f"{state}.size[v]",
        "age": f"(now - {state}.last[v])",
        "last": f"{state}.last[v]",
        "waiting": f"(1.0 if {state}.after[{state}.owner[v]] >= 0 else 0.0)",
    }
    of_entry = replace(scope, special=known)
    keys = ", ".join(f"{of_entry.number(key)} + 0.0" for key in pool.evict_by)
    out.line(f"while overfull({state}, need, cap_{name}) and {state}.newer[0] != 0:")
    with out.indented(), out.at(pool.place):
        out.line(f"v = {state}.newer[0]")
        out.line("victim = v")
        out.line(f"lowest = ({keys},)")
        out.line("while v != 0:")
        with out.indented():
            out.line(f"key = ({keys},)")
            out.line("if key < lowest:")
            out.line("    lowest = key")
            out.line("    victim = v")
            out.line(f"v = {state}.newer[v]")
        out.line(f"evict({state}, victim, need, cap_{name}, block_{name}, now)")
