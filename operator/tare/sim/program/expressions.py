"""From expressions to Python: text that numba compiles too.

Attributes are lists by session, constants are local names, truth values are 0.0 and 1.0 where they
are stored and conditions where they are tested. Every name gets a prefix, so that nothing in a
program can clash with the kernel's own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tare.sim.program import syntax
from tare.sim.program.constants import is_constant
from tare.sim.program.names import is_truth

if TYPE_CHECKING:
    from tare.sim.program.syntax import Expression

__all__ = ["Scope"]

_FUNCTIONS: Final = {
    "abs": "abs({0})",
    "ceil": "float(ceil({0}))",
    "exp": "exp({0})",
    "floor": "float(floor({0}))",
    "ln": "log({0})",
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
    "pow": "power({0}, {1})",
    "sqrt": "sqrt({0})",
}
_LOGIC: Final = {"&&": "and", "||": "or"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How names and draws are written at one place of the kernel."""

    constants: Mapping[str, float]
    truths: frozenset[str]
    draw: str
    """Python for the next number between 0 and 1 of the stream that this place reads."""
    session: str = "s"
    """The local name of the session whose attributes are read."""
    special: Mapping[str, str] = field(default_factory=dict)
    """Python for names that only this place knows."""

    def number(self, expression: Expression) -> str:
        """Write an expression as a number; a truth value becomes 0.0 or 1.0."""
        match expression:
            case syntax.Number(value=value):
                return repr(value)
            case syntax.Name(name=name):
                return self._name(name)
            case syntax.Unary(sign=sign, operand=operand):
                return f"({sign}{self.number(operand)})"
            case syntax.Choice(condition=condition, then=then, otherwise=otherwise):
                test = self.condition(condition)
                return f"({self.number(then)} if {test} else {self.number(otherwise)})"
            case syntax.Call(function=function, arguments=arguments):
                written = [self.number(argument) for argument in arguments]
                return f"({_FUNCTIONS[function].format(*written)})"
            case syntax.Draw():
                return self._draw(expression)
            case syntax.Binary(operator=operator, left=left, right=right) if operator in "+-*/":
                return f"({self.number(left)} {operator} {self.number(right)})"
            case _:
                return f"(1.0 if {self.condition(expression)} else 0.0)"

    def condition(self, expression: Expression) -> str:
        """Write an expression as a condition."""
        match expression:
            case syntax.Negation(operand=operand):
                return f"(not {self.condition(operand)})"
            case syntax.Binary(operator="&&" | "||" as operator, left=left, right=right):
                return f"({self.condition(left)} {_LOGIC[operator]} {self.condition(right)})"
            case syntax.Binary(operator=operator, left=left, right=right) if is_truth(
                expression, self.truths
            ):
                return f"({self.number(left)} {operator} {self.number(right)})"
            case syntax.Draw(arguments=(probability,)):
                return f"chance({self.number(probability)}, {self.draw})"
            case _:
                return f"({self.number(expression)} != 0.0)"

    def _name(self, name: str) -> str:
        if name in self.special:
            return self.special[name]
        if name == "now":
            return "now"
        return f"c_{name}" if name in self.constants else f"a_{name}[{self.session}]"

    def _draw(self, draw: syntax.Draw) -> str:
        fixed = all(is_constant(argument, self.constants) for argument in draw.arguments)
        written = [self.number(argument) for argument in draw.arguments]
        match draw.distribution:
            case "exp" if fixed:
                return f"(-{written[0]} * log(1.0 - {self.draw}))"
            case "exp":
                return f"exponential({written[0]}, {self.draw})"
            case "uniform" if fixed:
                low, high = written
                return f"({low} + ({high} - {low}) * {self.draw})"
            case "uniform":
                return f"uniform({written[0]}, {written[1]}, {self.draw})"
            case "bernoulli":
                return f"(1.0 if {self.condition(draw)} else 0.0)"
            case _:
                return written[0]
