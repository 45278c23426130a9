"""Statistics of Python modules: size, structure and cyclomatic complexity, by tokenising and parsing each.

As a payload it reads every module under ``inputs/`` and writes ``statistics.csv``. A module that cannot be
tokenised or parsed is marked, with everything that could be counted.
"""

import ast
import csv
import io
import sys
import tokenize
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

COLUMNS = ("module", "lines", "tokens", "functions", "classes", "complexity", "nesting", "parsed")

_LAYOUT = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.match_case,
)
_BLOCKS = (
    *_FUNCTIONS,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)

Row = tuple[str, int, int, int, int, int, int, int]


def statistics_of(name: str, source: bytes) -> Row:
    """Return one row of ``COLUMNS``. ``parsed`` is 1 or 0."""
    lines = len(source.splitlines())
    try:
        tokens = count_tokens(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, tokenize.TokenError):
        return (name, lines, 0, 0, 0, 0, 0, 0)
    nodes = list(ast.walk(tree))
    functions = sum(isinstance(node, _FUNCTIONS) for node in nodes)
    classes = sum(isinstance(node, ast.ClassDef) for node in nodes)
    return (name, lines, tokens, functions, classes, complexity(nodes), nesting(tree), 1)


def count_tokens(source: bytes) -> int:
    """Return the number of meaningful tokens: no comments, line ends or indentation."""
    return sum(token.type not in _LAYOUT for token in tokenize.tokenize(io.BytesIO(source).readline))


def complexity(nodes: Iterable[ast.AST]) -> int:
    """Return McCabe's number of the whole module: its decisions plus one."""
    decisions = 0
    for node in nodes:
        if isinstance(node, _BRANCHES):
            decisions += 1
        elif isinstance(node, ast.BoolOp):
            decisions += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            decisions += 1 + len(node.ifs)
    return decisions + 1


def nesting(tree: ast.AST) -> int:
    """Return the depth of nested blocks. An ``elif`` is as deep as its ``if``."""
    deepest, stack = 0, [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        for child in ast.iter_child_nodes(node):
            is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
            stack.append((child, depth + (isinstance(child, _BLOCKS) and not is_elif)))
    return deepest


def statistics_under(directory: Path) -> list[Row]:
    """Return a row for each module under ``directory``, named by its path there, sorted."""
    paths = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*.py")}
    return [statistics_of(name, paths[name].read_bytes()) for name in sorted(paths)]


def write(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV under a header of ``COLUMNS``."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


if __name__ == "__main__":
    statistics = statistics_under(Path("inputs"))
    write(statistics, Path("statistics.csv"))
    print(f"{len(statistics)} modules, {sum(row[2] for row in statistics)} tokens")
    sys.exit(0 if statistics else 1)
