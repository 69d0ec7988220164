"""A program as YAML, for those who would rather write that: the same syntax tree from another form.

Blocks are lists and mappings, expressions are strings of the same grammar, so that the two forms
cannot differ in meaning:

    pools: {kv: {cap: C, evict: lru}}
    session:
      - turn
      - hold: {pool: kv, units: K + n, do: [{run: {engine: d * n}}], cache: K + n}

Places are those of YAML's nodes, so that errors point at the line of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from tare.sim.program import builder, syntax
from tare.sim.program.errors import Place, ProgramError
from tare.sim.program.text import parse_part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tare.sim.program.syntax import Block, Expression, Statement

__all__ = ["parse_document"]

_TOP = ("let", "pools", "stages", "workload", "session", "run")


def parse_document(text: str) -> syntax.Program:
    """Read a program from YAML.

    Raises:
        ProgramError: it is no YAML, or no program.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        raise ProgramError(f"this is no YAML: {error.reason}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else None
        raise ProgramError(f"this is no YAML: {error.problem}", place) from None
    except RecursionError:
        raise ProgramError("the document is nested too deeply") from None
    if root is None:
        raise ProgramError(f"the document is empty; it needs: {', '.join(_TOP)}")
    parts = _mapping(root, _TOP)
    declarations: list[Any] = (
        [
            syntax.Let(name=name, value=_expression(value), place=_at(value))
            for name, value in _mapping(parts["let"]).items()
        ]
        if "let" in parts
        else []
    )
    for name, value in _mapping(parts["pools"]).items() if "pools" in parts else ():
        declarations.append(_pool(name, value))
    for name, value in _mapping(parts["stages"]).items() if "stages" in parts else ():
        kind, argument = _parsed("kind", value)
        declarations.append(
            syntax.StageDeclaration(name=name, kind=kind, argument=argument, place=_at(value))
        )
    if "workload" in parts:
        clauses = _workload(parts["workload"])
        declarations.append(("workload", clauses, _at(parts["workload"])))
    if "session" in parts:
        declarations.append(("session", _block(parts["session"]), _at(parts["session"])))
    if "run" in parts:
        declarations.append(("run", _run(parts["run"]), _at(parts["run"])))
    return builder.assemble(declarations)


def _pool(name: str, node: yaml.Node) -> syntax.PoolDeclaration:
    found = _mapping(node, ("cap", "block", "evict"))
    clauses: list[builder.Clause] = [
        (key, _expression(found[key]), _at(found[key])) for key in ("cap", "block") if key in found
    ]
    if "evict" in found:
        clauses.append(("evict", _eviction(found["evict"]), _at(found["evict"])))
    return builder.pool(name, clauses, _at(node))


def _eviction(node: yaml.Node) -> tuple[Expression, ...]:
    """Read the order of eviction: keys, or none for the least recently used first."""
    keys = _mapping(node, ("by",)) if isinstance(node, yaml.MappingNode) else {}
    if "by" in keys:
        return tuple(map(_expression, _sequence(keys["by"])))
    if isinstance(node, yaml.ScalarNode) and node.value == "lru":
        return ()
    raise ProgramError("evict is 'lru' or {by: [keys]}", _at(node))


def _workload(node: yaml.Node) -> dict[str, Any]:
    found = _mapping(node, ("arrive", "init", "turn"))
    clauses: list[builder.Clause] = []
    for key, value in found.items():
        read = _parsed("arrivals", value) if key == "arrive" else _sets(value)
        clauses.append((key, read, _at(value)))
    return builder.workload(clauses, _at(node))


def _run(node: yaml.Node) -> syntax.RunSettings:
    found = _mapping(node, ("horizon", "warmup", "seed"))
    clauses = [(key, _expression(value), _at(value)) for key, value in found.items()]
    return builder.run_settings(clauses, _at(node))


def _sets(node: yaml.Node) -> Block:
    """Read a mapping of attributes; order counts, since each may read those before it."""
    return tuple(
        syntax.Set(name=name, value=_expression(value), place=_at(value))
        for name, value in _mapping(node).items()
    )


def _block(node: yaml.Node) -> Block:
    return tuple(found for item in _sequence(node) for found in _statement(item))


def _statement(node: yaml.Node) -> Block:
    """Read one item of a list: a word, or a mapping with one key; `set` may set several."""
    place = _at(node)
    if isinstance(node, yaml.ScalarNode) and node.value in _WORDS:
        return (_WORDS[node.value](place=place),)
    found = _mapping(node) if isinstance(node, yaml.MappingNode) else {}
    if len(found) == 1:
        [(kind, value)] = found.items()
        if kind in _READERS:
            return _READERS[kind](value, place)
    raise ProgramError(f"a statement is one of: {', '.join((*_WORDS, *_READERS))}", place)


def _observed(node: yaml.Node) -> Block:
    return tuple(
        syntax.Observe(name=name, value=_expression(value), place=_at(value))
        for name, value in _mapping(node).items()
    )


def _runs(node: yaml.Node) -> Block:
    return tuple(
        syntax.RunStage(stage=stage, work=_expression(work), place=_at(work))
        for stage, work in _mapping(node).items()
    )


def _branch(node: yaml.Node, place: Place) -> Statement:
    found = _mapping(node, ("if", "with", "then", "else"))
    then = _block(found["then"]) if "then" in found else ()
    otherwise = _block(found["else"]) if "else" in found else ()
    if ("if" in found) == ("with" in found):
        raise ProgramError("a branch has either 'if' (a test) or 'with' (a probability)", place)
    if "if" in found:
        return syntax.Branch(
            condition=_expression(found["if"]), then=then, otherwise=otherwise, place=place
        )
    return syntax.Chance(
        probability=_expression(found["with"]), then=then, otherwise=otherwise, place=place
    )


def _hold(node: yaml.Node, place: Place) -> syntax.Hold:
    found = _mapping(node, ("pool", "units", "reuse", "do", "cache"))
    for key in ("pool", "units", "do"):
        if key not in found:
            raise ProgramError(f"this hold has no {key!r}", place)
    return syntax.Hold(
        pool=_scalar(found["pool"]),
        units=_expression(found["units"]),
        reuse=_expression(found["reuse"]) if "reuse" in found else None,
        body=_block(found["do"]),
        cache=_expression(found["cache"]) if "cache" in found else None,
        place=place,
    )


def _mapping(node: yaml.Node, allowed: tuple[str, ...] = ()) -> Mapping[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        what = f" with: {', '.join(allowed)}" if allowed else ""
        raise ProgramError(f"a mapping is expected here{what}", _at(node))
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _scalar(key)
        if allowed and name not in allowed:
            raise ProgramError(f"unknown {name!r}; allowed here: {', '.join(allowed)}", _at(key))
        if name in found:
            raise ProgramError(f"{name!r} stands here twice", _at(key))
        if not allowed and not name.isidentifier():
            raise ProgramError(f"{name!r} is no name: use letters, digits and _", _at(key))
        found[name] = value
    return found


def _sequence(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise ProgramError("a list is expected here", _at(node))
    return list(node.value)


def _scalar(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ProgramError("a word or an expression is expected here", _at(node))
    return str(node.value)


def _expression(node: yaml.Node) -> Expression:
    found: Expression = _parsed("expr", node)
    return found


def _parsed(part: str, node: yaml.Node) -> Any:
    """Parse a string as it stands in its file, so that places in it are those of the file."""
    place, quoted = _at(node), isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
    margin = "\n" * (place.line - 1) + " " * (place.column - 1 + quoted)
    return parse_part(part, margin + _scalar(node))


def _at(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


_WORDS: Final[Mapping[str, type[syntax.Turn | syntax.End]]] = {
    "turn": syntax.Turn,
    "end": syntax.End,
}
_READERS: Final[Mapping[str, Callable[[yaml.Node, Place], Block]]] = {
    "set": lambda node, _: _sets(node),
    "observe": lambda node, _: _observed(node),
    "run": lambda node, _: _runs(node),
    "drop": lambda node, place: (syntax.Drop(pool=_scalar(node), place=place),),
    "loop": lambda node, place: (syntax.Loop(body=_block(node), place=place),),
    "branch": lambda node, place: (_branch(node, place),),
    "hold": lambda node, place: (_hold(node, place),),
}
