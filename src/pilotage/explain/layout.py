"""Lines and tables of plain text, folded between words where a width is given; 0 is no width."""

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
    """The lines, each no wider than ``width`` unless a single word is; rests hang below their beginning."""
    if not width:
        return list(lines)
    found: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + HANGING)
        fold = TextWrapper(
            width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        found += fold.wrap(line) or [""]
    return found


def table(headings: Sequence[Heading], rows: Iterable[Sequence[object]], width: int = 0) -> list[str]:
    """Columns under their headings; numbers to the right, what is not essential left out where narrow."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    shown = list(range(len(headings)))
    made = _columns(headings, cells, shown)
    if width and any(len(line) > width for line in made):
        shown = [place for place in shown if headings[place].essential]
        made = _columns(headings, cells, shown)
    return folded(made, width)


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
