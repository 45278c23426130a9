"""Messages that the pages quote in their tables are the program's own words."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .modules import modules

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (ROOT / "docs").glob("*/*.md")
    if re.search(r"^\| message \|", page.read_text(), re.MULTILINE)
)
FOREIGN = frozenset(
    {
        *("FTS job …: FAILED: TRANSFER …", "FTS job …: CANCELED: …"),
        *("Failed while looking for jobs", "Failure during parsing"),
        *("[Errno 28] No space left on device", "[Errno 13] Permission denied"),
        *("Unable to locate credentials", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket"),
        *("401 Unauthorized", "403 Forbidden"),
        *("Connection error", "Operation expired", "[3010] … permission denied"),
    }
)
"""Words of other programs: servers, client libraries, the system."""

KIND = re.compile(r"\b(symbolic link|folder|loopback|private)\b|^\w+(?= is not installed)|\[\w+(?=\]')")
"""Words of quoted messages for which the code has a value."""

_VARIABLE = re.compile(r"…|NAME|\b[A-Z]\b|/?[\w./-]*/[\w./-]+|\b[\w.-]+@[\w.-]+|\b\d+\b")


def test_every_quoted_message_is_one_that_the_program_says() -> None:
    quoted = [(page.name, said) for page in PAGES for said in _quoted(page)]
    assert len(quoted) > 30
    assert not [(page, said) for page, said in quoted if said not in FOREIGN and not _is_ours(said)]


def test_no_sentence_for_users_names_a_route() -> None:
    route = re.compile(r"\b(GET|POST|PUT|DELETE|PATCH) /\S*")
    told = [
        (name, text)
        for name, module in modules().items()
        if route.search(module.text)
        for text in said(module.tree)
        if route.search(text) and not route.fullmatch(text)
    ]
    assert not told, "commands print it: name the command"


def test_no_sentence_for_users_carries_the_number_of_a_rule() -> None:
    rule = re.compile(r"\([A-Z]\d{1,2}\b")
    told = [
        (name, text)
        for name, module in modules().items()
        if rule.search(module.text)
        for text in said(module.tree)
        if rule.search(text)
    ]
    assert not told, "leave the number out, or move it into the docstring"


def said(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings, of names or attributes either."""
    nodes = list(ast.walk(tree))
    documentation = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def _quoted(page: Path) -> Iterator[str]:
    """Yield what stands in backquotes in the first column of tables of messages."""
    inside = False
    for line in page.read_text().splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.startswith("| message |"):
            inside = True
        elif inside:
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


def _is_ours(said: str) -> bool:
    """Return whether each part between variables is in one text of the code, in this order."""
    parts = [part.strip(" :,;()'\"") for part in _VARIABLE.split(KIND.sub("…", said))]
    wanted = [part for part in parts if len(part) > 2]
    return any(_in_order(wanted, text) for text in _texts())


def _in_order(parts: list[str], text: str) -> bool:
    begin = 0
    for part in parts:
        if (begin := text.find(part, begin)) < 0:
            return False
        begin += len(part)
    return True


@cache
def _texts() -> tuple[str, ...]:
    """Return the texts of the code, with a gap for each value."""
    found: list[str] = []
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(one.value) if isinstance(one, ast.Constant) else "\0" for one in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return tuple(found)
