"""Show tables on terminals: states in colour, control characters as escapes."""

import re
from collections.abc import Iterable, Sequence

import typer

from pilotage.explain.layout import GAP, Column, table_lines

_STYLES = {
    "green": "finished done online",
    "red": "failed offline brokeroff",
    "cyan": "running delivering merging",
    "yellow": "pending paused test",
    "dim": "cancelled closed",
}
_STYLE_OF = {word: style for style, words in _STYLES.items() for word in words.split()}


HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control terminals or change the direction of writing."""


def visible(text: str) -> str:
    """Return text with control characters escaped, except line ends and tabs.

    Names and errors come from others: control characters in them could rewrite the screen.
    """
    return HIDDEN.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cell_width(text: str) -> int:
    """Return the columns that a text takes of a terminal: two for each wide character."""
    if text.isascii():
        return len(text)
    # Loading it takes longer than all else here.
    from rich.cells import cell_len

    return cell_len(text)


def lay_out(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int, coloured: bool = False
) -> list[str]:
    """Return the lines of a table for a screen of ``width`` columns; 0 means no limit."""
    texts = ([visible("" if cell is None else str(cell)).replace("\n", " ") for cell in row] for row in rows)
    lines = []
    for line in table_lines(columns, texts, width, cell_width):
        cells = [*line.cells[:-1], line.cells[-1].rstrip()]
        if coloured:
            cells = [_styled(cell, line.is_heading) for cell in cells]
        lines.append(GAP.join(cells).rstrip())
    return lines


def _styled(cell: str, is_heading: bool) -> str:
    style = "bold" if is_heading else _STYLE_OF.get(cell.strip(), "")
    match style:
        case "":
            return cell
        case "bold" | "dim":
            return typer.style(cell, **{style: True})
    return typer.style(cell, fg=style)
