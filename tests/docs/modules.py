"""What the source of each module says, read once: functions and their length, and what is imported."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pilotage"


@dataclass(frozen=True)
class Function:
    """A function or method, and how many lines it has."""

    name: str
    line: int
    lines: int


@dataclass(frozen=True)
class Module:
    """A module's text, tree, functions, and what it imports by ``from`` where it is loaded, or for types."""

    path: Path
    text: str
    tree: ast.Module
    functions: tuple[Function, ...]
    imports: tuple[ast.ImportFrom, ...]


@cache
def modules() -> dict[str, Module]:
    """Each module, by its path below the package."""
    found = {str(path.relative_to(SOURCE)): _module(path) for path in SOURCE.rglob("*.py")}
    gc.freeze()  # the trees are half a million objects that stay: each look for garbage in them took 0.6 s
    return found


def _module(path: Path) -> Module:
    text = path.read_text()
    tree = ast.parse(text)
    functions: list[Function] = []
    imports: list[ast.ImportFrom] = []
    for node, inside in _statements(tree.body, inside=False):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            functions.append(Function(node.name, node.lineno, lines))
        elif isinstance(node, ast.ImportFrom) and not inside:
            imports.append(node)
    return Module(path, text, tree, tuple(functions), tuple(imports))


def _statements(body: list[ast.stmt], *, inside: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a body and of those below, and whether it stands inside a function.

    Expressions hold neither functions with names nor imports: to walk them took three times as long.
    """
    for node in body:
        yield node, inside
        below = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(part, name, []), inside=below)
