from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from tare.sim.core.flatten import flatten

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = 1


class Counter(NamedTuple):
    total: list[int]
    calls: list[int]


def new_counter() -> Counter:
    return Counter([0], [0])


def add(counter: Counter, number: int) -> int:
    """Add and return the total."""
    before = counter.total[0]
    counter.total[0] = before + number
    counter.calls[0] += ONE
    return counter.total[0]


def add_twice(counter: Counter, number: int) -> None:
    add(counter, number)
    add(counter, number)


def doubled(number: int) -> int:
    return 2 * number


def positive(counter: Counter) -> bool:
    found = counter.total[0] > 0
    if not found:
        counter.calls[0] += 100
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": add,
    "add_twice": add_twice,
    "doubled": doubled,
    "positive": positive,
}
SOURCE = """
def run(number):
    counter = new_counter()
    before = 5
    add_twice(counter, number + before)
    last = add(counter, doubled(number))
    if positive(counter):
        last += 1000
    return last, before, counter.total, counter.calls
"""


def executed(tree: ast.AST, **names: Any) -> Any:
    namespace: dict[str, Any] = {"new_counter": new_counter, **names}
    code = compile(ast.fix_missing_locations(ast.parse(ast.unparse(tree))), "test", "exec")
    exec(code, namespace)  # noqa: S102 - that is what is tested
    return namespace["run"](3)


def test_a_flattened_function_does_the_same_without_a_call() -> None:
    expected = executed(ast.parse(SOURCE), **FUNCTIONS)
    tree = flatten(SOURCE, FUNCTIONS, {"new_counter": Counter._fields})
    assert executed(tree) == expected == (1022, 5, [22], [3])


def test_lines_of_a_called_body_are_those_of_the_call() -> None:
    tree = flatten(SOURCE, FUNCTIONS, {"new_counter": Counter._fields})
    lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    assert max(lines) == len(SOURCE.splitlines())
