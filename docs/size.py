"""Print lines of code and files by room of the source, without blanks, comments and docstrings.

.venv/bin/python docs/size.py [FOLDER]
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
}


def count_code_lines(source: str) -> int:
    """Return how many lines of a module are code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.end_lineno:
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def main(folder: Path) -> None:
    """Print one row for each room, the largest first, and their sum."""
    lines, files = Counter[str](), Counter[str]()
    for path in folder.rglob("*.py"):
        if "_sync" in path.parts:  # made from _async
            continue
        room = path.relative_to(folder).parts[0]
        lines[room] += count_code_lines(path.read_text())
        files[room] += 1
    for room, count in lines.most_common():
        print(f"{room:20} {count:7,} lines {files[room]:5,} files")
    print(f"{'all':20} {lines.total():7,} lines {files.total():5,} files")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/pilotage"))
