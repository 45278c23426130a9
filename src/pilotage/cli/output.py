"""What commands print: tables on terminals of any width, plain documents for programs."""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

PIPE_WIDTH = 200
"""Columns of what is no terminal."""

NARROW = 90
"""Terminals of fewer columns are shown the essential columns only."""

_STYLES = {
    "green": "finished done online",
    "red": "failed offline brokeroff",
    "cyan": "running delivering merging",
    "yellow": "pending paused test",
    "dim": "cancelled closed",
}
_STYLE_OF = {word: style for style, words in _STYLES.items() for word in words.split()}


class Column(NamedTuple):
    """A column of a table; one that is not ``essential`` is left out on narrow terminals."""

    title: str
    essential: bool = True
    number: bool = False


def console(stderr: bool = False) -> "Console":
    """Where people read; what is piped is as wide as it likes, and without colour."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        stderr=stderr,
        width=None if stream.isatty() else PIPE_WIDTH,
        highlight=False,
        soft_wrap=False,
    )


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], width: int, title: str = ""
) -> "Table":
    """A table for a terminal of this width, states coloured."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = [at for at, column in enumerate(columns) if column.essential or width >= NARROW]
    made = Table(
        box=box.SIMPLE_HEAD, show_edge=False, title=title or None, title_justify="left", pad_edge=False
    )
    for at in shown:
        made.add_column(columns[at].title, justify="right" if columns[at].number else "left", overflow="fold")
    for row in rows:
        cells = (str("" if row[at] is None else row[at]) for at in shown)
        made.add_row(*(Text(cell, style=_STYLE_OF.get(cell, "")) for cell in cells))
    return made


def show(columns: Sequence[Column], rows: Iterable[Sequence[object]], nothing: str) -> None:
    """Print a table, or a sentence where it would be empty."""
    out = console()
    made = table(columns, rows, out.width)
    if made.row_count:
        out.print(made)
    else:
        out.print(nothing)


def width() -> int:
    """Columns of the terminal; 0 where the output is none."""
    return console().width if sys.stdout.isatty() else 0


def show_lines(lines: Iterable[str]) -> None:
    """Print lines of text as they are."""
    for line in lines:
        typer.echo(line)


def show_json(document: object) -> None:
    """Print a document for programs."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def plural(count: int, noun: str) -> str:
    """``1 queue``, ``2 queues``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def one_line(text: str, most: int = 80) -> str:
    """The first line of a text, cut short, for a cell of a table."""
    first = text.partition("\n")[0].strip()
    return first if first == text and len(first) <= most else f"{first[: most - 3]}..."


def counts(by_state: Mapping[str, int]) -> str:
    """``3 running, 5 finished``; states without records are left out."""
    return ", ".join(f"{count} {state}" for state, count in by_state.items() if count)


def ago(point: float | None) -> str:
    """How long ago a point in time was, in the largest unit that fits."""
    if point is None:
        return ""
    passed = max(0.0, time.time() - point)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if passed >= length:
            return f"{passed / length:.0f} {unit}"
    return f"{passed:.0f} s"


def limit_of(value: float, unit: str) -> str:
    """A limit of a queue, where 0 is none."""
    return f"{value:g} {unit}" if value else "no limit"


def document_text(value: Any) -> str:
    """A document as YAML."""
    from pilotage.federation.text import render

    return render(value)
