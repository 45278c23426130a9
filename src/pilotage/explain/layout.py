"""Lines, tables and bars of plain text, folded between words to a width; 0 means no limit."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from textwrap import TextWrapper, wrap
from typing import NamedTuple

from pilotage.model.records.logs import Point

HANGING = 4
"""Extra indentation of a folded line's continuation."""


GAP = "  "
"""Gap between two cells of a table."""

INDENT = "    "
"""Indentation of the cells that moved below their row."""


class TextForm(NamedTuple):
    """How an explanation is written: its columns (0: any), and whether it names the published rules."""

    width: int = 0
    rules: bool = False


PLAIN = TextForm()


class Column(NamedTuple):
    """A column of a table. If it is not ``essential``, it moves below its row where the table is too wide."""

    title: str
    essential: bool = True
    number: bool = False


def folded(lines: Iterable[str], width: int) -> list[str]:
    """Fold lines to ``width``, unless a single word is wider. Continuations are indented.

    A line that is too wide loses its alignment spaces first, because it may then fit.
    """
    if not width:
        return list(lines)
    return [part for line in lines for part in _folded(line if len(line) <= width else _close(line), width)]


def _folded(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + HANGING)
    # Do not break long words: a broken address or name cannot be copied.
    fold = TextWrapper(width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return fold.wrap(line) or [""]


def _close(line: str) -> str:
    return re.sub(r"(?<=\S) {3,}", "  ", line)


class TableLine(NamedTuple):
    """A line of a table: its cells, as wide as their columns."""

    cells: tuple[str, ...]
    is_heading: bool = False


def table_lines(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    width: int = 0,
    cell_width: Callable[[str], int] = len,
) -> Iterator[TableLine]:
    """Yield the lines of a table for a screen with ``width`` columns; 0 means no limit.

    If the table does not fit, its non-essential cells move below their rows, with their titles. Cells break
    only between words. A word wider than the screen crosses its edge. ``cell_width`` returns the width of a
    text on the screen.
    """
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    natural = [max(map(cell_width, texts)) for texts in zip(titles, *cells, strict=True)]
    visible, below = list(range(len(columns))), list[int]()
    if width and sum(natural) + len(GAP) * (len(columns) - 1) > width:
        visible = [at for at in visible if columns[at].essential]
        below = [at for at in range(len(columns)) if not columns[at].essential]
    widths = _widths(columns, natural, visible, width)

    def padded(at: int, text: str) -> str:
        space = " " * (widths[at] - cell_width(text))
        return space + text if columns[at].number else text + space

    def row_lines(row: Sequence[str], *, is_heading: bool = False) -> Iterator[TableLine]:
        parts = (_wrapped(row[at], widths[at]) or [""] for at in visible)
        for line in zip_longest(*parts, fillvalue=""):
            yield TableLine(tuple(map(padded, visible, line)), is_heading)

    yield from row_lines(titles, is_heading=True)
    for row in cells:
        yield from row_lines(row)
        more = ", ".join(f"{titles[at]} {row[at]}" for at in below if row[at])
        yield from (TableLine((INDENT + line,)) for line in _wrapped(more, width - len(INDENT)))


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int = 0) -> list[str]:
    """Return a table as lines of plain text, with a rule below its titles."""
    lines = list(table_lines(columns, rows, width))
    rule = GAP.join("-" * len(cell) for cell in lines[0].cells)
    titles = sum(line.is_heading for line in lines)
    texts = [GAP.join(line.cells).rstrip() for line in lines]
    return [*texts[:titles], rule, *texts[titles:]]


def _widths(
    columns: Sequence[Column], natural: Sequence[int], visible: Sequence[int], width: int
) -> dict[int, int]:
    """Return the widths of the visible columns; if they do not fit, shrink the widest."""
    widths = {at: natural[at] for at in visible}
    excess = sum(widths.values()) + len(GAP) * (len(visible) - 1) - width
    if width and excess > 0:
        # Shrink text before numbers: a number on two lines looks like two numbers.
        widest = max(visible, key=lambda at: (not columns[at].number, widths[at]))
        widths[widest] = max(len(columns[widest].title), 12, widths[widest] - excess)
    return widths


def _wrapped(text: str, width: int) -> list[str]:
    if width <= 0:
        return [text] if text else []
    # Do not break long words: a broken address or name cannot be copied.
    return wrap(text, width, break_long_words=False, break_on_hyphens=False)


_BARS = " ▁▂▃▄▅▆▇█"


def usage_of_attempt(attempt: int, points: Sequence[Point]) -> Iterator[str]:
    """Yield an attempt's total usage, and its cores and memory over time; nothing without points."""
    if not points:
        return
    seconds, cpu, _, read, written, received, sent = points[-1]
    moved = f"{_disk_io(read, written)}, {_net(received, sent)}"
    yield f"  attempt {attempt} over {seconds:.0f} s: {cpu:.0f} s of CPU time, {moved}"
    cores = [
        max(0.0, after[1] - before[1]) / max(after[0] - before[0], 0.001)
        for before, after in pairwise(((0.0,) * 7, *points))
    ]
    memory = [point[2] for point in points]
    yield f"    cores in use  |{bars(cores, max(cores))}| at most {max(cores):.1f}"
    yield f"    memory in use |{bars(memory, max(memory))}| at most {max(memory):.0f} MB"


def _disk_io(read: float, written: float) -> str:
    return f"{read / 1000:.1f} MB read from disks and {written / 1000:.1f} MB written"


def _net(received: float, sent: float) -> str:
    return f"{received / 1000:.1f} MB received and {sent / 1000:.1f} MB sent"


def bars(values: Sequence[float], maximum: float) -> str:
    """Return values from 0 to ``maximum`` as bars of one character each."""
    maximum = maximum or 1.0
    return "".join(_BARS[round(value / maximum * (len(_BARS) - 1))] for value in values)
