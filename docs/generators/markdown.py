"""Tables and paragraphs in Markdown."""

import re
from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Iterator[Sequence[object]] | Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def first_paragraph(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    first = " ".join((text or "").strip().split("\n\n")[0].split())
    return first.replace("``", "`")


def plain(text: str) -> str:
    """Return text with references to code as code."""
    return re.sub(r":(?:class|meth|func):`([^`]*)`", r"`\1`", text)
