"""Print tables and lines for people, and plain documents for programs; ask people."""

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.layout import HIDDEN, lay_out, visible
from pilotage.explain.layout import Column
from pilotage.model.values.phrases import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from pilotage.client.records import Table

__all__ = ["Column"]

UNKNOWN_WIDTH = 80
"""Columns of a terminal of unknown width."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def console(stderr: bool = False) -> "Console":
    """Return the console for people. Piped output has no colour."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # No markup: a name in brackets would count as a style.
    return Console(file=stream, stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], stderr: bool = False) -> "Text":
    """Return a table as wide as the terminal. Piped output has no limit."""
    from rich.text import Text

    return Text.from_ansi("\n".join(lay_out(columns, rows, width(stderr), coloured=True)))


def show(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], nothing: str, stderr: bool = False
) -> None:
    """Print a table, or a sentence if it is empty."""
    table = list(rows)
    lines = lay_out(columns, table, width(stderr), has_colour(stderr)) if table else [nothing]
    typer.echo("\n".join(lines), err=stderr)


def echo(text: str, err: bool = False, colour: str = "") -> None:
    """Print a sentence, folded between words on a terminal. Control characters become visible."""
    from pilotage.explain.layout import folded

    for line in folded(visible(text).split("\n"), width(err)):
        typer.secho(line, err=err, fg=colour if colour and has_colour(err) else None)


def warn(answer: Mapping[str, Any]) -> None:
    """Print the warnings of the server's answer to standard error."""
    for warning in answer.get("warnings", ()):
        echo(f"warning: {warning}", err=True)


def is_terminal(stderr: bool = False) -> bool:
    """Return whether a person reads the output. Ask this before rich is loaded: scripts do not need it."""
    return (sys.stderr if stderr else sys.stdout).isatty()


def width(stderr: bool = False) -> int:
    """Return the columns of the terminal; 0 if the output is none."""
    # Programs that read a pipe need unfolded lines, even if COLUMNS is set.
    if not is_terminal(stderr):
        return 0
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    with suppress(OSError):
        return os.get_terminal_size((sys.stderr if stderr else sys.stdout).fileno()).columns or UNKNOWN_WIDTH
    return UNKNOWN_WIDTH


def has_colour(stderr: bool = False) -> bool:
    """Return whether the output is a terminal with colours, and no setting forbids them (no-color.org)."""
    environment = os.environ.get
    return (
        is_terminal(stderr)
        and not environment("NO_COLOR")
        and environment("TERM", "") not in ("dumb", "unknown")
    )


def show_lines(lines: Iterable[str]) -> None:
    """Print lines of text without folding them."""
    for line in lines:
        typer.echo(visible(line))


def show_json(document: object) -> None:
    """Print a document for programs."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=lambda record: record.to_dict())
    # JSON escapes only some control characters. This form means the same document to any reader.
    typer.echo(HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def one_line(text: str, length: int = 80) -> str:
    """Return the first line of a text, cut to fit a cell of a table."""
    first = text.partition("\n")[0].strip()
    return first if first == text and len(first) <= length else f"{first[: length - 3]}..."


def counts(by_state: Mapping[str, int]) -> str:
    """Return ``3 running, 5 finished``. States without records are left out."""
    return ", ".join(f"{count} {state}" for state, count in by_state.items() if count)


def ago(point: float | None) -> str:
    """Return the time since a moment; empty for none."""
    return span(None if point is None else time.time() - point)


def span(seconds: float | None) -> str:
    """Return a duration in one unit; empty for none."""
    return "" if seconds is None else duration(seconds)


def limit_of(value: float, unit: str) -> str:
    """Return a limit of a queue with its unit; 0 means none."""
    return f"{value:g} {unit}" if value else "no limit"


def document_text(value: Any) -> str:
    """Return a document as YAML."""
    from pilotage.federation.text import render

    return render(value)


def is_interactive() -> bool:
    """Return whether a person can answer: standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirmed(question: str) -> bool:
    """Ask a question on standard error. Return whether the answer is yes; no answer means no."""
    return typer.confirm(question, err=True)


def ask(action: str, named: str = "") -> None:
    """Ask whether to do ``action``, with a line before that is ``named``.

    Raises ``BadInput`` where no person can answer, ``CommandFailure`` if the answer is no.
    """
    if not is_interactive():
        raise BadInput(f"this would {action}; without a terminal to ask at, give --yes")
    if named:
        echo(named, err=True)
    if not confirmed(f"{action}?"):
        raise CommandFailure("nothing was changed")


Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")]
After = Annotated[
    str, typer.Option(metavar="CURSOR", help="Go on after a page: CURSOR is in its last line, or in `next`.")
]


def hint_next(page: "Table[Any]", noun: str) -> None:
    """Say how to see the rows after a page, if there are any."""
    if page.next:
        count = (
            f"{len(page):,} of {page.total:,} {noun}s" if page.total is not None else f"{len(page):,} {noun}s"
        )
        echo(f"{count} are shown; the next ones: --after {page.next}, or larger pages: --limit")
