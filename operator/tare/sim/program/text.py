"""From the text of a program to its syntax, with lark and `grammar.lark`.

An error says where it is, what stands there, and what could stand there.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from lark import Lark
from lark.exceptions import (
    UnexpectedCharacters,
    UnexpectedInput,
    UnexpectedToken,
    VisitError,
)

from tare.sim.program.builder import build
from tare.sim.program.errors import Place, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.sim.program.syntax import Program

__all__ = ["parse", "parse_part"]

_PARTS = ("start", "expr", "statement", "arrivals", "kind")
_SHOWN = 16
_WORDS = {"NAME": "a name", "NUMBER": "a number", "$END": "the end", "ADD": "'+', '-'"}
_WORD_END = r"\b"
_OPERATORS = {"OR", "AND", "COMPARE", "ADD", "MULTIPLY", "QMARK"}


def parse(text: str) -> Program:
    """Read a program.

    Raises:
        ProgramError: the text is no program.
    """
    return cast("Program", parse_part("start", text))


def parse_part(part: str, text: str) -> Any:
    """Read one program, expression, statement, kind of arrivals or kind of stage."""
    try:
        return build(_parser().parse(text, start=part))
    except UnexpectedInput as error:
        raise _explained(error, text) from None
    except (RecursionError, VisitError) as error:
        cause = error.orig_exc if isinstance(error, VisitError) else error
        if isinstance(cause, RecursionError):
            cause = ProgramError("the program is nested too deeply; at most 100 levels work")
        raise cause from None


@cache
def _parser() -> Lark:
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        start=list(_PARTS),
        propagate_positions=True,
        maybe_placeholders=True,
    )


def _explained(error: UnexpectedInput, text: str) -> ProgramError:
    place = Place(max(error.line, 1), max(error.column, 1))
    match error:
        case UnexpectedCharacters():
            return ProgramError(f"{error.char!r} means nothing here", place)
        case UnexpectedToken(token=token) if token.type != "$END":
            found = f"unexpected {str(token)!r}"
            return ProgramError(
                f"{found}; allowed here: {_allowed(error.accepts or error.expected)}", place
            )
        case UnexpectedToken():
            lines = text.splitlines() or [""]
            return ProgramError(
                f"the text ends too early; allowed here: {_allowed(error.accepts or ())}",
                Place(len(lines), len(lines[-1]) + 1),
            )
        case _:
            return ProgramError("this is not understood", place)


def _allowed(expected: Iterable[str]) -> str:
    """Name terminals as a writer knows them."""
    names = set(expected)
    operators = names & _OPERATORS
    if len(operators) > 2:  # noqa: PLR2004 - after an expression: any operator
        names -= operators
    words = sorted(_word(name) for name in names)
    if len(operators) > 2:  # noqa: PLR2004
        words.append("an operator")
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _word(name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    pattern = _parser().get_terminal(name).pattern
    return f"'{pattern.value.removesuffix(_WORD_END)}'"
