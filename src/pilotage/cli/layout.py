"""Lay out tables as plain text. Columns that do not fit move below their row."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.text import Text

GAP = 2
"""Blank columns between two cells."""

INDENT = "    "
"""Indentation of lines below a row."""

_STYLES = {
    "green": "finished done online",
    "red": "failed offline brokeroff",
    "cyan": "running delivering merging",
    "yellow": "pending paused test",
    "dim": "cancelled closed",
}
_STYLE_OF = {word: style for style, words in _STYLES.items() for word in words.split()}


class Column(NamedTuple):
    """A column of a table. If it is not ``essential``, it moves below its row on narrow terminals."""

    title: str
    essential: bool = True
    number: bool = False


HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control terminals, and those that change the direction of writing."""


def visible(text: str) -> str:
    """Return text with control characters escaped, except line ends and tabs.

    Names and errors come from others, whose control characters could rewrite the screen.
    """
    return HIDDEN.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def lay_out(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int, title: str = ""
) -> "list[Text]":
    """Return the lines of a table for a screen of ``width`` columns; 0 means no limit.

    If a row does not fit, its non-essential columns stand below it with their titles. Cells break only
    between words. A longer word crosses the edge.
    """
    from rich.text import Text

    cells = [[visible("" if cell is None else str(cell)).replace("\n", " ") for cell in row] for row in rows]
    everything = list(range(len(columns)))
    shown, below = everything, list[int]()
    if width and _needed(columns, cells, everything) > width:
        shown = [at for at in everything if columns[at].essential]
        below = [at for at in everything if not columns[at].essential]
    widths = _widths(columns, cells, shown, width)
    lines = [Text(title, style="bold")] if title else []
    lines += _row(columns, [columns[at].title for at in everything], shown, widths, header=True)
    for row in cells:
        lines += _row(columns, row, shown, widths)
        more = ", ".join(f"{columns[at].title} {row[at]}" for at in below if row[at])
        lines += [Text(line) for line in _wrapped(more, width - len(INDENT), INDENT)]
    return lines


def _needed(columns: Sequence[Column], cells: Sequence[Sequence[str]], shown: Sequence[int]) -> int:
    return sum(_natural(columns, cells, at) for at in shown) + GAP * (len(shown) - 1)


def _natural(columns: Sequence[Column], cells: Sequence[Sequence[str]], at: int) -> int:
    from rich.cells import cell_len

    return max(cell_len(text) for text in (columns[at].title, *(row[at] for row in cells)))


def _widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], shown: Sequence[int], width: int
) -> dict[int, int]:
    """Return the widths of the columns shown. The widest shrinks if they do not fit."""
    widths = {at: _natural(columns, cells, at) for at in shown}
    excess = sum(widths.values()) + GAP * (len(shown) - 1) - width
    if width and excess > 0:
        # A number broken over two lines reads as two numbers, so text shrinks first.
        widest = max(shown, key=lambda at: (not columns[at].number, widths[at]))
        widths[widest] = max(len(columns[widest].title), 12, widths[widest] - excess)
    return widths


def _row(
    columns: Sequence[Column],
    row: Sequence[str],
    shown: Sequence[int],
    widths: dict[int, int],
    header: bool = False,
) -> "list[Text]":
    from rich.cells import cell_len
    from rich.text import Text

    parts = [_wrapped(row[at], widths[at]) or [""] for at in shown]
    lines = []
    for line in zip_longest(*parts, fillvalue=""):
        text = Text()
        for at, part in zip(shown, line, strict=True):
            padding = " " * max(0, widths[at] - cell_len(part))
            text.append(padding if columns[at].number else "")
            text.append(part, style="bold" if header else _STYLE_OF.get(part, ""))
            text.append(("" if columns[at].number else padding) + " " * GAP)
        text.rstrip()
        lines.append(text)
    return lines


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    if width <= 0:
        return [indent + text] if text else []
    wrapped = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [indent + line for line in wrapped]
