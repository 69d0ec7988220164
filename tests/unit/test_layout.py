"""The shape of the tree: rules that no linter checks."""

from __future__ import annotations

import ast
import operator
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "tare"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]
MAX_FILE = 400
MAX_FUNCTION = 50


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_the_folder_operator_is_no_package_so_that_the_standard_library_keeps_its_name() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert operator.itemgetter(0)("a") == "a"
    assert Path(str(operator.__file__)).parent == Path(os.__file__).parent


def test_there_are_modules_to_check() -> None:
    assert len(MODULES) > 10


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*/__init__.py")), ids=relative)
def test_a_package_holds_a_docstring_and_nothing_else(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_file_has_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_function_has_at_most_50_lines(path: Path) -> None:
    for function in functions(ast.parse(path.read_text())):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= MAX_FUNCTION, f"{function.name} in line {function.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "path", [path for path in MODULES if not path.name.startswith("_")], ids=relative
)
def test_a_module_says_what_it_offers_and_offers_what_it_says(path: Path) -> None:
    tree = ast.parse(path.read_text())
    defined = {name for node in tree.body for name in names_of(node)}
    exported = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and names_of(node) == ["__all__"]
    ]
    assert len(exported) == 1
    assert set(exported[0]) <= defined


def names_of(node: ast.stmt) -> list[str]:
    """Names that a statement of a module defines."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name for alias in node.names]
        case ast.If():
            return [name for inner in (*node.body, *node.orelse) for name in names_of(inner)]
        case _:
            return []


def test_no_module_is_named_for_what_it_is_not() -> None:
    nameless = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
    assert [relative(path) for path in SOURCES if path.name in nameless] == []
