"""What the names in a program mean, and whether an expression is a number or a truth value.

An attribute is a truth value when everything that it is ever set to is one. Truth values count as
0 and 1 in arithmetic; a number is no condition, so that `branch (K)` is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.sim.program import syntax
from tare.sim.program.constants import check_call, check_draw, parts
from tare.sim.program.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tare.sim.program.errors import Place
    from tare.sim.program.syntax import Block, Expression, Program, Statement

__all__ = ["DISTRIBUTIONS", "ENTRY_NAMES", "Names", "check", "is_truth", "observed_at", "walk"]

DISTRIBUTIONS: Final[Mapping[str, int]] = {"bernoulli": 1, "det": 1, "exp": 1, "uniform": 2}
"""Distributions with the number of their parameters."""

ENTRY_NAMES: Final = ("size", "age", "last", "waiting")
"""What keys of an eviction may read of a cached prefix, beside attributes and constants."""

_RESERVED: Final = ("now", "cached")
_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_DEPTH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Everything that a program gives a name to."""

    attributes: tuple[str, ...]
    truths: frozenset[str]
    """Attributes that are truth values."""
    observations: tuple[str, ...]


def check(program: Program, constants: Mapping[str, float]) -> Names:
    """Check every name and type.

    Raises:
        ProgramError: with the place of the first thing that is wrong.
    """
    _check_declarations(program)
    blocks = (program.init, program.turn, program.session)
    for block in blocks:
        _check_depth(block)
    statements = [found for block in blocks for found in walk(block)]
    setters: dict[str, list[Expression]] = {}
    for statement in statements:
        if isinstance(statement, syntax.Set):
            _check_free(statement.name, constants, statement.place)
            setters.setdefault(statement.name, []).append(statement.value)
    truths = _truths(setters)
    names = Names(
        attributes=tuple(setters),
        truths=truths,
        observations=tuple(
            dict.fromkeys(s.name for s in statements if isinstance(s, syntax.Observe))
        ),
    )
    _Checker(program, names, constants).check()
    return names


def walk(block: Block) -> Iterator[Statement]:
    """Yield all statements of a block and of the blocks inside it."""
    for statement in block:
        yield statement
        for inner in blocks_of(statement):
            yield from walk(inner)


def observed_at(program: Program, name: str) -> Place | None:
    """Return where a program observes something."""
    for statement in walk(program.session):
        if isinstance(statement, syntax.Observe) and statement.name == name:
            return statement.place
    return None


def blocks_of(statement: Statement) -> tuple[Block, ...]:
    """Return the blocks of a statement."""
    match statement:
        case syntax.Loop(body=body) | syntax.Hold(body=body):
            return (body,)
        case syntax.Branch(then=then, otherwise=otherwise):
            return then, otherwise
        case syntax.Chance(then=then, otherwise=otherwise):
            return then, otherwise
        case _:
            return ()


def is_truth(expression: Expression, truths: frozenset[str]) -> bool:
    """Whether an expression is a truth value."""
    match expression:
        case syntax.Negation():
            return True
        case syntax.Binary(operator=operator):
            return operator in (*_COMPARISONS, "&&", "||")
        case syntax.Choice(then=then, otherwise=otherwise):
            return is_truth(then, truths) and is_truth(otherwise, truths)
        case syntax.Draw(distribution=distribution):
            return distribution == "bernoulli"
        case syntax.Name(name=name):
            return name in truths
        case _:
            return False


def _truths(setters: Mapping[str, list[Expression]]) -> frozenset[str]:
    """Start from all attributes and take away those that are set to a number."""
    truths = frozenset(setters)
    while True:
        left = frozenset(
            name for name in truths if all(is_truth(value, truths) for value in setters[name])
        )
        if left == truths:
            return truths
        truths = left


def _check_free(name: str, constants: Mapping[str, float], place: Place) -> None:
    if name in _RESERVED:
        raise ProgramError(f"{name!r} is given by the simulator and cannot be set", place)
    if name in constants:
        raise ProgramError(f"{name!r} is a constant; an attribute needs another name", place)


def _check_declarations(program: Program) -> None:
    seen: set[str] = set()
    declarations: list[syntax.Let | syntax.PoolDeclaration | syntax.StageDeclaration] = [
        *program.lets,
        *program.pools,
        *program.stages,
    ]
    for declaration in declarations:
        if declaration.name in seen:
            raise ProgramError(f"{declaration.name!r} is declared twice", declaration.place)
        if declaration.name in _RESERVED:
            raise ProgramError(f"{declaration.name!r} is given by the simulator", declaration.place)
        seen.add(declaration.name)


def _check_depth(block: Block, depth: int = 0) -> None:
    for statement in block:
        if depth >= _DEPTH:
            raise ProgramError(f"more than {_DEPTH} levels of blocks", statement.place)
        for inner in blocks_of(statement):
            _check_depth(inner, depth + 1)


class _Checker:
    """Walks a program with what is known at each place."""

    def __init__(self, program: Program, names: Names, constants: Mapping[str, float]) -> None:
        self._program = program
        self._names = names
        self._constants = constants
        self._pools = [pool.name for pool in program.pools]
        self._stages = [stage.name for stage in program.stages]

    def check(self) -> None:
        """Check declarations and blocks."""
        for pool in self._program.pools:
            for key in pool.evict_by:
                self._number(key, extra=ENTRY_NAMES, draws=False)
        for stage in self._program.stages:
            if stage.kind == "ps" and stage.argument:
                self._number(stage.argument, extra=("n",), draws=False, attributes=False)
        if self._program.arrivals.kind == "renewal":
            self._number(self._program.arrivals.argument, attributes=False)
        for what, block in (("init", self._program.init), ("turn", self._program.turn)):
            for statement in walk(block):
                if not isinstance(statement, syntax.Set):
                    raise ProgramError(
                        f"the workload's {what} block only sets attributes", statement.place
                    )
                self._number(statement.value)
        self._block(self._program.session, ())

    def _block(self, block: Block, held: tuple[str, ...]) -> None:
        for statement in block:
            self._statement(statement, held)

    def _statement(self, statement: Statement, held: tuple[str, ...]) -> None:
        match statement:
            case syntax.Set(value=value) | syntax.Observe(value=value):
                self._number(value, held=held)
            case syntax.RunStage(stage=stage, work=work, place=place):
                self._known("stage", stage, self._stages, place)
                self._number(work, held=held)
            case syntax.Drop(pool=pool, place=place):
                self._known("pool", pool, self._pools, place)
            case syntax.Loop(body=body):
                self._block(body, held)
            case syntax.Branch(condition=condition, then=then, otherwise=otherwise):
                self._condition(condition, held, "branch", "; for a draw: branch with (p)")
                self._block(then, held)
                self._block(otherwise, held)
            case syntax.Chance(probability=probability, then=then, otherwise=otherwise):
                self._number(probability, held=held)
                self._block(then, held)
                self._block(otherwise, held)
            case syntax.Hold():
                self._hold(statement, held)
            case syntax.Turn() | syntax.End():
                return

    def _hold(self, hold: syntax.Hold, held: tuple[str, ...]) -> None:
        self._known("pool", hold.pool, self._pools, hold.place)
        if hold.pool in held:
            raise ProgramError(f"a hold of {hold.pool!r} inside a hold of it", hold.place)
        self._number(hold.units, held=held)
        if hold.reuse:
            if hold.cache is None:
                raise ProgramError("reuse needs a cache clause: … } cache (units);", hold.place)
            self._number(hold.reuse, held=held)
        self._block(hold.body, (*held, hold.pool))
        if hold.cache:
            self._number(hold.cache, held=(*held, hold.pool))

    def _known(self, kind: str, name: str, known: list[str], place: Place) -> None:
        if name not in known:
            names = ", ".join(known) or "none"
            raise ProgramError(f"there is no {kind} {name!r}; declared: {names}", place)

    def _condition(
        self, expression: Expression, held: tuple[str, ...], where: str, hint: str = ""
    ) -> None:
        self._number(expression, held=held)
        if not is_truth(expression, self._names.truths):
            raise ProgramError(
                f"{where} needs a truth value, such as K > 0, and this is a number{hint}",
                expression.place,
            )

    def _number(
        self,
        expression: Expression,
        *,
        held: tuple[str, ...] = (),
        extra: tuple[str, ...] = (),
        draws: bool = True,
        attributes: bool = True,
        depth: int = 0,
    ) -> None:
        """Check an expression whose value is used as a number, and everything in it."""
        if depth > _DEPTH:
            raise ProgramError(f"more than {_DEPTH} levels of brackets", expression.place)
        match expression:
            case syntax.Name(name=name, place=place):
                self._readable(name, place, held, extra, attributes=attributes)
            case syntax.Call(function=function, arguments=arguments, place=place):
                check_call(function, len(arguments), place)
            case syntax.Draw():
                self._draw(expression, draws=draws)
            case syntax.Choice(condition=condition):
                self._truth(condition, "a choice ( … ? … : … )")
            case syntax.Negation(operand=operand):
                self._truth(operand, "'!'")
            case syntax.Binary(operator="&&" | "||" as operator, left=left, right=right):
                self._truth(left, repr(operator))
                self._truth(right, repr(operator))
            case _:
                pass
        for part in parts(expression):
            self._number(
                part, held=held, extra=extra, draws=draws, attributes=attributes, depth=depth + 1
            )

    def _truth(self, expression: Expression, where: str) -> None:
        if not is_truth(expression, self._names.truths):
            raise ProgramError(
                f"{where} needs a truth value, such as K > 0, and this is a number",
                expression.place,
            )

    def _draw(self, draw: syntax.Draw, *, draws: bool) -> None:
        if not draws:
            raise ProgramError("nothing can be drawn at random here", draw.place)
        wanted = DISTRIBUTIONS.get(draw.distribution)
        if wanted is None:
            known = ", ".join(f"~{name}" for name in DISTRIBUTIONS)
            raise ProgramError(
                f"unknown distribution ~{draw.distribution}; there are: {known}", draw.place
            )
        if len(draw.arguments) != wanted:
            raise ProgramError(
                f"~{draw.distribution} takes {wanted} argument(s), here are {len(draw.arguments)}",
                draw.place,
            )
        check_draw(draw, self._constants)

    def _readable(
        self,
        name: str,
        place: Place,
        held: tuple[str, ...],
        extra: tuple[str, ...],
        *,
        attributes: bool,
    ) -> None:
        known = [*extra, *self._constants]
        if attributes:
            known += ["now", *self._names.attributes]
        if held:
            known.append("cached")
        if name in known:
            return
        if name == "cached":
            raise ProgramError("'cached' is known inside a hold only", place)
        if name in self._pools or name in self._stages:
            raise ProgramError(f"{name!r} is a pool or a stage, not a number", place)
        raise ProgramError(f"unknown name {name!r}; known here: {', '.join(known)}", place)
