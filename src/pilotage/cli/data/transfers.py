"""Transfers, and their priorities (D9)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import After, Column, Json, Limit, ago, echo, hint_next, show, show_json

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer()

TRANSFERS = (
    Column("transfer", number=True),
    Column("file"),
    Column("from", essential=False),
    Column("to"),
    Column("share", essential=False),
    Column("priority", number=True),
    Column("state"),
    Column("since", essential=False, number=True),
    Column("error", essential=False),
)


@app.command(epilog="Example: pilotage transfers --prioritise 17=90 --prioritise 18=90")
def transfers(
    state: Annotated[str | None, typer.Option(help="Only transfers in this state.")] = None,
    limit: Limit = 100,
    after: After = "",
    prioritise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=PRIORITY", help="Give a live transfer another priority, 1 to 100; repeatable."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep showing deliveries, with rate and time left.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Show transfers, newest first, or change the priority of some."""
    priorities = [_priority(text) for text in prioritise or []]
    with connect() as client:
        if priorities:
            _prioritise(client, priorities, json_output)
            return
        if watch and not json_output:
            from pilotage.cli.data.transfer_rates import keep_showing

            keep_showing(client)
        page = client.transfers(state=state, limit=limit, after=after or None)
    if json_output:
        show_json(page)
        return
    rows = [_row(transfer) for transfer in page]
    show(TRANSFERS, rows, f"No transfer is {state}." if state else "There are no transfers.")
    hint_next(page, "transfer")


def _row(transfer: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        transfer["id"],
        transfer["file"],
        transfer["source"],
        transfer["destination"],
        transfer["share"],
        transfer["priority"],
        transfer["state"],
        ago(transfer["since"]),
        transfer["error"],
    )


def _priority(text: str) -> tuple[int, int]:
    id_, _, priority = text.partition("=")
    try:
        change = int(id_), int(priority)
    except ValueError:
        raise BadInput(f"--prioritise {text!r} is not ID=PRIORITY; give for example 17=90") from None
    if not 1 <= change[1] <= 100:
        raise BadInput(f"--prioritise {text!r}: {change[1]} is outside 1 to 100")
    return change


def _prioritise(client: "Client", priorities: list[tuple[int, int]], json_output: bool) -> None:
    document = client.prioritise_transfers(priorities)
    changed = set(document["changed"])
    if json_output:
        show_json(document)
    else:
        for id_, priority in priorities:
            if id_ in changed:
                echo(f"transfer {id_} has priority {priority}")
    missing = ", ".join(str(id_) for id_, _ in priorities if id_ not in changed)
    if missing:
        raise CommandFailure(f"not changed, since no such transfer is live: {missing}")
