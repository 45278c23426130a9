"""Options of commands that show a page of a list, and the hint to the page that follows."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.terminal.output import echo

if TYPE_CHECKING:
    from pilotage.client.records import Table

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
