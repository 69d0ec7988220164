"""From lark's parse tree to the syntax of a program: one method for each rule of the grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lark import Transformer, Tree, v_args

from tare.sim.program import syntax
from tare.sim.program.errors import Place, ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lark.tree import Meta

__all__ = ["Clause", "assemble", "build", "pool", "run_settings", "workload"]

Clause = tuple[str, Any, Place]
"""Name, value and place of something that may stand in a declaration once."""


def build(tree: Tree[Any]) -> Any:
    """Build what a parse tree stands for: a program, or the part that was parsed."""
    return _Builder().transform(tree)


def assemble(declarations: Iterable[Any]) -> syntax.Program:
    """Put declarations together.

    Raises:
        ProgramError: a part is missing, or there twice.
    """
    groups: dict[type[Any], list[Any]] = {}
    parts: list[Clause] = []
    for declaration in declarations:
        if isinstance(declaration, tuple):
            parts.append(declaration)
        else:
            groups.setdefault(type(declaration), []).append(declaration)
    found = _once(parts, "a program")
    for part in ("workload", "session", "run"):
        if part not in found:
            raise ProgramError(f"the program has no {part} {{ … }}; it needs exactly one")
    return syntax.Program(
        lets=tuple(groups.get(syntax.Let, ())),
        pools=tuple(groups.get(syntax.PoolDeclaration, ())),
        stages=tuple(groups.get(syntax.StageDeclaration, ())),
        session=found["session"],
        run=found["run"],
        **found["workload"],
    )


def _once(clauses: Iterable[Clause], where: str) -> dict[str, Any]:
    """Return clauses by name; none may be there twice."""
    found: dict[str, Any] = {}
    for name, value, place in clauses:
        if name in found:
            raise ProgramError(f"a second {name!r}; {where} has one", place)
        found[name] = value
    return found


def workload(clauses: Iterable[Clause], place: Place) -> dict[str, Any]:
    """Return the workload's fields of a program."""
    found = _once(clauses, "a workload")
    if "arrive" not in found:
        raise ProgramError(
            "the workload does not say how sessions arrive: arrive poisson(1);", place
        )
    return {
        "arrivals": found["arrive"],
        "init": found.get("init", ()),
        "turn": found.get("turn", ()),
    }


def run_settings(clauses: Iterable[Clause], place: Place) -> syntax.RunSettings:
    """Return the settings of the run."""
    found = _once(clauses, "a run")
    if "horizon" not in found:
        raise ProgramError("the run has no horizon: horizon 1000;", place)
    return syntax.RunSettings(
        horizon=found["horizon"],
        warmup=found.get("warmup"),
        seed=found.get("seed"),
        place=place,
    )


def pool(name: str, clauses: Iterable[Clause], place: Place) -> syntax.PoolDeclaration:
    """Return the declaration of a pool."""
    found = _once(clauses, f"pool {name}")
    return syntax.PoolDeclaration(
        name=name,
        cap=found.get("cap"),
        block=found.get("block"),
        evict_by=found.get("evict", ()),
        place=place,
    )


def _at(meta: Meta) -> Place:
    # An empty rule has no position; it is never the place of an error either.
    return Place(getattr(meta, "line", 1), getattr(meta, "column", 1))


def _clause(name: str) -> Callable[..., Clause]:
    def clause(_: object, meta: Meta, value: Any) -> Clause:
        return name, value, _at(meta)

    return clause


def _arrivals(kind: str) -> Callable[..., syntax.Arrivals]:
    def arrivals(_: object, meta: Meta, argument: Any) -> syntax.Arrivals:
        return syntax.Arrivals(kind=kind, argument=argument, place=_at(meta))

    return arrivals


def _kind(kind: str) -> Callable[..., Any]:
    def stage_kind(_: object, meta: Meta, argument: Any = None) -> Any:
        del meta
        return kind, argument

    return stage_kind


@v_args(inline=True, meta=True)
class _Builder(Transformer[Any, Any]):
    """Builds bottom-up; what is optional and left out arrives as None."""

    cap = _clause("cap")
    pool_block = _clause("block")
    arrive = _clause("arrive")
    init = _clause("init")
    turn_body = _clause("turn")
    session = _clause("session")
    horizon = _clause("horizon")
    warmup = _clause("warmup")
    seed = _clause("seed")
    poisson = _arrivals("poisson")
    renewal = _arrivals("renewal")
    batch = _arrivals("batch")
    closed = _arrivals("closed")
    fifo = _kind("fifo")
    delay = _kind("delay")
    ps = _kind("ps")

    def start(self, meta: Meta, *declarations: Any) -> Any:
        del meta
        return assemble(declarations)

    def let(self, meta: Meta, name: Any, value: Any) -> Any:
        return syntax.Let(name=str(name), value=value, place=_at(meta))

    def pool(self, meta: Meta, name: Any, *clauses: Any) -> Any:
        return pool(str(name), clauses, _at(meta))

    def evict_lru(self, meta: Meta) -> Any:
        return "evict", (), _at(meta)

    def evict_by(self, meta: Meta, *keys: Any) -> Any:
        return "evict", keys, _at(meta)

    def stage(self, meta: Meta, name: Any, kind: Any) -> Any:
        return syntax.StageDeclaration(
            name=str(name), kind=kind[0], argument=kind[1], place=_at(meta)
        )

    def workload(self, meta: Meta, *clauses: Any) -> Any:
        return "workload", workload(clauses, _at(meta)), _at(meta)

    def run(self, meta: Meta, *clauses: Any) -> Any:
        return "run", run_settings(clauses, _at(meta)), _at(meta)

    def body(self, meta: Meta, *statements: Any) -> Any:
        del meta
        return statements

    def turn(self, meta: Meta) -> Any:
        return syntax.Turn(place=_at(meta))

    def end(self, meta: Meta) -> Any:
        return syntax.End(place=_at(meta))

    def set(self, meta: Meta, name: Any, value: Any) -> Any:
        return syntax.Set(name=str(name), value=value, place=_at(meta))

    def observe(self, meta: Meta, name: Any, value: Any) -> Any:
        return syntax.Observe(name=str(name), value=value, place=_at(meta))

    def run_stage(self, meta: Meta, name: Any, work: Any) -> Any:
        return syntax.RunStage(stage=str(name), work=work, place=_at(meta))

    def drop(self, meta: Meta, name: Any) -> Any:
        return syntax.Drop(pool=str(name), place=_at(meta))

    def loop(self, meta: Meta, body: Any) -> Any:
        return syntax.Loop(body=body, place=_at(meta))

    def branch(self, meta: Meta, condition: Any, then: Any, otherwise: Any) -> Any:
        return syntax.Branch(
            condition=condition, then=then, otherwise=otherwise or (), place=_at(meta)
        )

    def chance(self, meta: Meta, probability: Any, then: Any, otherwise: Any) -> Any:
        return syntax.Chance(
            probability=probability, then=then, otherwise=otherwise or (), place=_at(meta)
        )

    def hold(self, meta: Meta, name: Any, units: Any, reuse: Any, body: Any, cache: Any) -> Any:
        return syntax.Hold(
            pool=str(name), units=units, reuse=reuse, body=body, cache=cache, place=_at(meta)
        )

    def choice(self, meta: Meta, condition: Any, then: Any, otherwise: Any) -> Any:
        return syntax.Choice(condition=condition, then=then, otherwise=otherwise, place=_at(meta))

    def binary(self, meta: Meta, left: Any, operator: Any, right: Any) -> Any:
        return syntax.Binary(operator=str(operator), left=left, right=right, place=_at(meta))

    def unary(self, meta: Meta, sign: Any, operand: Any) -> Any:
        return syntax.Unary(sign=str(sign), operand=operand, place=_at(meta))

    def negation(self, meta: Meta, operand: Any) -> Any:
        return syntax.Negation(operand=operand, place=_at(meta))

    def number(self, meta: Meta, text: Any) -> Any:
        return syntax.Number(value=float(text), place=_at(meta))

    def name(self, meta: Meta, name: Any) -> Any:
        return syntax.Name(name=str(name), place=_at(meta))

    def call(self, meta: Meta, function: Any, *arguments: Any) -> Any:
        return syntax.Call(function=str(function), arguments=arguments, place=_at(meta))

    def draw(self, meta: Meta, distribution: Any, *arguments: Any) -> Any:
        return syntax.Draw(distribution=str(distribution), arguments=arguments, place=_at(meta))
