"""Lines and tables of plain text, folded between words where a width is given; 0 is no width."""

import re
from collections.abc import Iterable, Sequence
from textwrap import TextWrapper
from typing import NamedTuple

HANGING = 4
"""Columns by which a folded line's rest is indented beyond its beginning."""


class Heading(NamedTuple):
    """A column of a table; one that is not ``essential`` is left out where there is no room."""

    title: str
    essential: bool = True
    number: bool = False


def folded(lines: Iterable[str], width: int) -> list[str]:
    """Fold lines so that none is wider than ``width``, unless a single word is; rests hang below.

    What is too wide is set without the space that lines it up with others: it might fit then.
    """
    if not width:
        return list(lines)
    return [part for line in lines for part in _folded(line if len(line) <= width else _close(line), width)]


def _folded(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + HANGING)
    # Long words stay whole: an address or a name cut in two cannot be copied.
    fold = TextWrapper(width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return fold.wrap(line) or [""]


def _close(line: str) -> str:
    return re.sub(r"(?<=\S) {3,}", "  ", line)


def table(headings: Sequence[Heading], rows: Iterable[Sequence[object]], width: int = 0) -> list[str]:
    """Columns under their headings; numbers to the right, what is not essential left out where narrow."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    shown = list(range(len(headings)))
    made = _columns(headings, cells, shown)
    if width and any(len(line) > width for line in made):
        shown = [place for place in shown if headings[place].essential]
        made = _columns(headings, cells, shown)
    return [part for line in made for part in _folded(line, width)] if width else made


def _columns(headings: Sequence[Heading], cells: Sequence[Sequence[str]], shown: Sequence[int]) -> list[str]:
    widths = {place: max(len(row[place]) for row in ([h.title for h in headings], *cells)) for place in shown}

    def line(row: Sequence[str]) -> str:
        padded = (
            row[place].rjust(widths[place]) if headings[place].number else row[place].ljust(widths[place])
            for place in shown
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * widths[place] for place in shown)
    return [line([heading.title for heading in headings]), rule, *(line(row) for row in cells)]
