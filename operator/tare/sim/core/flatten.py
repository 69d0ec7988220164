"""Inlining: from a function that calls the core's small functions to one that calls none of them.

The core is written as small functions on named tuples of lists. Calls and look-ups are what plain
Python spends most of its time with, and what keeps numba from holding a list in a register, so the
hot loops are flattened before they are compiled: bodies replace calls, and a tuple's lists become
local names. The result computes the same in the same order.

Only what the core uses is understood: positional arguments, and at most one `return`, at the end.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["flatten"]


_Node = TypeVar("_Node", bound=ast.AST)


def flatten(
    source: str,
    functions: Mapping[str, Callable[..., Any]],
    tuples: Mapping[str, Sequence[str]],
) -> ast.Module:
    """Return the syntax tree of `source` with calls of `functions` replaced by their bodies.

    Args:
        source: a module; line numbers of what comes from a call are those of the call.
        functions: what is inlined, by name.
        tuples: functions that make a named tuple, with its fields: a name that is given their
            result becomes as many names.
    """
    tree = ast.parse(source)
    inliner = _Inliner({name: _Callee(function) for name, function in functions.items()}, tuples)
    tree.body = inliner.block(tree.body)
    return tree


class _Callee:
    """A function as a syntax tree; constants of its module are filled in."""

    def __init__(self, function: Callable[..., Any]) -> None:
        assert isinstance(function, FunctionType)
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        self.parameters = [argument.arg for argument in definition.args.args]
        constants = {
            name: ast.Constant(value)
            for name, value in function.__globals__.items()
            if isinstance(value, int | float)
        }
        body = definition.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        self.body = [_Substitution(constants).visit(statement) for statement in body]
        self.assigned = {
            node.id
            for statement in self.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        assert not self.assigned & set(self.parameters), f"{function} assigns a parameter"

    @property
    def expression(self) -> ast.expr | None:
        """What the function returns, when it does nothing else."""
        match self.body:
            case [ast.Return(value=ast.expr() as value)]:
                return value
            case _:
                return None


class _Substitution(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, replacements: Mapping[str, ast.expr]) -> None:
        self._replacements = replacements

    @override
    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._replacements.get(node.id)
        if found is None:
            return node
        if isinstance(node.ctx, ast.Store):
            assert isinstance(found, ast.Name)
            return ast.Name(found.id, ast.Store())
        return copy.deepcopy(found)


class _Inliner(ast.NodeTransformer):
    """Rewrites statements one after the other; expressions through `visit`."""

    def __init__(self, callees: Mapping[str, _Callee], tuples: Mapping[str, Sequence[str]]) -> None:
        self._callees = callees
        self._tuples = tuples
        self._fields: dict[str, Sequence[str]] = {}
        """Fields of the local names that stand for a tuple."""
        self._numbers = count(1)

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite statements."""
        return [new for statement in statements for new in self._statement(statement)]

    def _statement(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call) if name in self._callees:
                yield from self._inlined(call, None)
            case ast.Assign(
                targets=[ast.Name(id=target)], value=ast.Call(func=ast.Name(id=name)) as call
            ) if name in self._tuples:
                self._fields[target] = self._tuples[name]
                names = [
                    ast.Name(_local(target, field), ast.Store()) for field in self._tuples[name]
                ]
                yield _moved(ast.Assign([ast.Tuple(list(names), ast.Store())], call), statement)
            case ast.Assign(
                targets=[ast.Name() as target_name], value=ast.Call(func=ast.Name(id=name)) as call
            ) if name in self._callees:
                yield from self._inlined(call, target_name)
            case ast.If(test=ast.Call(func=ast.Name(id=name)) as call) if (
                name in self._callees and self._callees[name].expression is None
            ):
                test = self._fresh("test")
                yield from self._inlined(call, ast.Name(test, ast.Store()))
                statement.test = ast.Name(test, ast.Load())
                yield from self._compound(statement)
            case _:
                yield from self._compound(statement)

    def _compound(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        for name, value in ast.iter_fields(statement):
            if name in ("body", "orelse"):
                setattr(statement, name, self.block(value))
            elif isinstance(value, ast.AST):
                setattr(statement, name, self.visit(value))
            elif isinstance(value, list):
                setattr(statement, name, [self.visit(part) for part in value])
        yield statement

    @override
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node.value:
            case ast.Name(id=name) if node.attr in self._fields.get(name, ()):
                return ast.Name(_local(name, node.attr), node.ctx)
            case _:
                self.generic_visit(node)
                return node

    @override
    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        callee = self._callees.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if callee is None:
            return node
        value = callee.expression
        assert value is not None, f"{ast.unparse(node)} is called inside an expression"
        assert all(map(_is_simple, node.args)), f"{ast.unparse(node)} has an argument to compute"
        found = dict(zip(callee.parameters, node.args, strict=True))
        replaced: ast.expr = self.visit(_Substitution(found).visit(copy.deepcopy(value)))
        return _moved(replaced, node)

    def _inlined(self, call: ast.Call, target: ast.Name | None) -> Iterator[ast.stmt]:
        """Yield the body of the called function with its names made local."""
        assert isinstance(call.func, ast.Name)
        callee = self._callees[call.func.id]
        names: dict[str, ast.expr] = {
            name: ast.Name(self._fresh(name), ast.Load()) for name in callee.assigned
        }
        for parameter, given in zip(callee.parameters, call.args, strict=True):
            argument: ast.expr = self.visit(given)
            if not _is_fixed(argument):
                name = self._fresh(parameter)
                yield _moved(ast.Assign([ast.Name(name, ast.Store())], argument), call)
                argument = ast.Name(name, ast.Load())
            names[parameter] = argument
        for original in callee.body:
            statement = _Substitution(names).visit(copy.deepcopy(original))
            if isinstance(statement, ast.Return):
                assert statement.value is not None
                if target is None:
                    continue
                statement = ast.Assign([target], statement.value)
            yield from self._statement(_moved(statement, call))

    def _fresh(self, name: str) -> str:
        return f"{name}_{next(self._numbers)}"


def _local(name: str, field: str) -> str:
    return f"{name}__{field}"


def _is_fixed(expression: ast.expr) -> bool:
    """Whether an expression has the same value wherever a body puts it."""
    match expression:
        case ast.Name() | ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case _:
            return False


def _is_simple(expression: ast.expr) -> bool:
    """Whether an expression may be evaluated twice: names, constants, fields and items."""
    match expression:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value):
            return _is_simple(value)
        case ast.Subscript(value=value, slice=index):
            return _is_simple(value) and _is_simple(index)
        case _:
            return False


def _moved(node: _Node, origin: ast.AST) -> _Node:
    """Give a node and all of its parts the place of `origin`."""
    for part in ast.walk(node):
        ast.copy_location(part, origin)
    return node
