"""Values that are known before a run: constants, `--set`, sizes, rates and the run's settings.

They are computed apart from the program's code, which takes them as arguments: a sweep compiles a
program once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.sim.program import syntax
from tare.sim.program.errors import Place, ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tare.sim.program.syntax import Expression, Program

__all__ = [
    "FUNCTIONS",
    "Settings",
    "check_call",
    "check_draw",
    "evaluate",
    "is_constant",
    "parts",
    "resolve",
]

FUNCTIONS: Final[Mapping[str, tuple[int, Callable[..., float]]]] = {
    "abs": (1, abs),
    "ceil": (1, math.ceil),
    "exp": (1, math.exp),
    "floor": (1, math.floor),
    "ln": (1, math.log),
    "max": (2, max),
    "min": (2, min),
    "pow": (2, math.pow),
    "sqrt": (1, math.sqrt),
}
"""Functions of a program with the number of their arguments."""

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": float.__eq__,
    "!=": float.__ne__,
    "<=": float.__le__,
    ">=": float.__ge__,
    "<": float.__lt__,
    ">": float.__gt__,
}
_MAX_SEED: Final = 2**53
_SMALLEST: Final = math.ulp(0.0)
"""Bound of what must be more than 0."""
_MAX_SERVERS: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that a run needs besides the program's code."""

    constants: Mapping[str, float]
    horizon: float
    warmup: float
    seed: int


def resolve(program: Program, overrides: Mapping[str, float], seed: int | None = None) -> Settings:
    """Compute the constants and check every size, rate and time.

    Raises:
        ProgramError: an override of no constant, or an impossible value.
    """
    constants = _constants(program, overrides)
    for expression, what, low, high in _ranges(program):
        _within(expression, what, low, high, constants)
    run = program.run
    horizon = _within(run.horizon, "the horizon", 0.0, math.inf, constants)
    if horizon == 0:
        raise ProgramError("a horizon of 0 s leaves no time to run", run.horizon.place)
    warmup = _within(run.warmup, "the warm-up", 0.0, math.inf, constants) if run.warmup else 0.0
    if warmup >= horizon and run.warmup:
        raise ProgramError(
            f"a warm-up of {warmup:g} s leaves nothing of the horizon of {horizon:g} s",
            run.warmup.place,
        )
    if seed is None:
        seed = (
            int(_within(run.seed, "the seed", 0, _MAX_SEED, constants, whole=True))
            if run.seed
            else 1
        )
    return Settings(constants=constants, horizon=horizon, warmup=warmup, seed=seed)


def evaluate(expression: Expression, constants: Mapping[str, float]) -> float:
    """Return the value of an expression of constants.

    Raises:
        ProgramError: a division by zero and the like.
    """
    try:
        return float(_value(expression, constants))
    except ZeroDivisionError:
        raise ProgramError("division by zero", expression.place) from None
    except (ValueError, OverflowError) as error:
        raise ProgramError(f"this has no value: {error}", expression.place) from None


def is_constant(expression: Expression, constants: Mapping[str, float]) -> bool:
    """Whether an expression is made of numbers and constants only."""
    match expression:
        case syntax.Number():
            return True
        case syntax.Name(name=name):
            return name in constants
        case syntax.Draw():
            return False
        case _:
            return all(is_constant(part, constants) for part in parts(expression))


def parts(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions that an expression is made of."""
    match expression:
        case syntax.Unary(operand=operand) | syntax.Negation(operand=operand):
            return (operand,)
        case syntax.Binary(left=left, right=right):
            return left, right
        case syntax.Choice(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case syntax.Call(arguments=arguments) | syntax.Draw(arguments=arguments):
            return arguments
        case _:
            return ()


def _constants(program: Program, overrides: Mapping[str, float]) -> dict[str, float]:
    known = [let.name for let in program.lets]
    for name in overrides:
        if name not in known:
            names = ", ".join(known) or "none"
            raise ProgramError(f"there is no constant {name!r} to set; the program has: {names}")
    constants: dict[str, float] = {}
    for let in program.lets:
        value = overrides.get(let.name)
        constants[let.name] = evaluate(let.value, constants) if value is None else float(value)
    return constants


_Range = tuple["Expression", str, float, float]


def _ranges(program: Program) -> Iterator[_Range]:
    """Yield what must be constant in declarations, and between which values."""
    for pool in program.pools:
        if pool.cap:
            yield pool.cap, f"the capacity of {pool.name}", _SMALLEST, math.inf
        if pool.block:
            yield pool.block, f"the block of {pool.name}", _SMALLEST, math.inf
    for stage in program.stages:
        if stage.kind == "fifo" and stage.argument:
            yield stage.argument, f"the number of servers of {stage.name}", 1, _MAX_SERVERS
    match program.arrivals:
        case syntax.Arrivals(kind="poisson", argument=rate):
            yield rate, "the arrival rate", _SMALLEST, 1e12
        case syntax.Arrivals(kind="batch" | "closed" as kind, argument=number):
            yield number, f"the number of sessions of {kind}", 1, 1e7
        case _:
            return


_WHOLE: Final = ("the number of servers", "the number of sessions")


def _within(
    expression: Expression,
    what: str,
    low: float,
    high: float,
    constants: Mapping[str, float],
    *,
    whole: bool = False,
) -> float:
    if not is_constant(expression, constants):
        raise ProgramError(f"{what} must be made of constants and numbers", expression.place)
    value = evaluate(expression, constants)
    if not low <= value <= high:
        bounds = _bounds(low, high)
        raise ProgramError(f"{what} is {value:g}; it must be {bounds}", expression.place)
    if (whole or what.startswith(_WHOLE)) and not value.is_integer():
        raise ProgramError(f"{what} is {value:g}; it must be whole", expression.place)
    return value


def _bounds(low: float, high: float) -> str:
    least = "more than 0" if low == _SMALLEST else f"at least {low:g}"
    return least if math.isinf(high) else f"{least} and at most {high:g}"


def check_draw(draw: syntax.Draw, constants: Mapping[str, float]) -> None:
    """Check the parameters of a distribution, as far as they are constant."""
    arguments = draw.arguments
    if not all(is_constant(argument, constants) for argument in arguments):
        return
    values = [evaluate(argument, constants) for argument in arguments]
    place: Place = arguments[0].place
    match draw.distribution, values:
        case "exp", [mean] if not 0 <= mean < math.inf:
            raise ProgramError(f"the mean of ~exp is {mean:g}; it must be at least 0", place)
        case "bernoulli", [probability] if not 0 <= probability <= 1:
            raise ProgramError(
                f"the probability of ~bernoulli is {probability:g}; it must be from 0 to 1", place
            )
        case "uniform", [low, high] if not low <= high:
            raise ProgramError(
                f"~uniform({low:g}, {high:g}) is empty: the first must not be larger", place
            )
        case _:
            return


def _value(expression: Expression, constants: Mapping[str, float]) -> float:
    match expression:
        case syntax.Number(value=value):
            return value
        case syntax.Name(name=name, place=place):
            if name not in constants:
                known = ", ".join(constants) or "none"
                raise ProgramError(f"{name!r} is no constant known here; known: {known}", place)
            return constants[name]
        case syntax.Unary(sign=sign, operand=operand):
            value = _value(operand, constants)
            return -value if sign == "-" else value
        case syntax.Negation(operand=operand):
            return float(not _value(operand, constants))
        case syntax.Choice(condition=condition, then=then, otherwise=otherwise):
            return _value(then if _value(condition, constants) else otherwise, constants)
        case syntax.Binary(operator=operator, left=left, right=right):
            return _binary(operator, _value(left, constants), _value(right, constants))
        case syntax.Call(function=name, arguments=arguments, place=place):
            check_call(name, len(arguments), place)
            return float(FUNCTIONS[name][1](*(_value(part, constants) for part in arguments)))
        case syntax.Draw(place=place):
            raise ProgramError("a constant cannot be drawn at random", place)


def check_call(name: str, arguments: int, place: Place) -> None:
    """Check that a function exists and has that many arguments."""
    if name not in FUNCTIONS:
        raise ProgramError(f"unknown function {name!r}; there are: {', '.join(FUNCTIONS)}", place)
    wanted = FUNCTIONS[name][0]
    if arguments != wanted:
        raise ProgramError(f"{name} takes {wanted} argument(s), here are {arguments}", place)


def _binary(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "&&":
            return float(bool(left) and bool(right))
        case "||":
            return float(bool(left) or bool(right))
        case _:
            return float(_COMPARISONS[operator](left, right))
