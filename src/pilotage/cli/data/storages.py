"""Storages: their free space (B18), and circuit breakers where deliveries fail (F4)."""

from collections.abc import Mapping
from typing import Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.data import storage_moving
from pilotage.cli.places.breakers import until
from pilotage.cli.places.restricting import add_verbs
from pilotage.cli.terminal.output import Column, Json, show, show_json

app = typer.Typer(
    help="Show storages, their space and circuit breakers; drain, close, open or move one.",
    invoke_without_command=True,
)

STORAGES = (
    Column("storage"),
    Column("site", essential=False),
    Column("free"),
    Column("as of", essential=False),
    Column("closed"),
    Column("breaker"),
    Column("until"),
    Column("why", essential=False),
)


@app.callback(
    epilog='Example: pilotage storages\n\nExample: pilotage storages drain north-disk --because "it is full"'
)
def storages(context: typer.Context, json_output: Json = False) -> None:
    """Show storages, their free space, and circuit breakers: open since deliveries fail, until when and why.

    Free space is measured (the storage reported it at the time shown) or declared (the federation states it).
    """
    if context.invoked_subcommand:
        return
    with connect() as client:
        records = client.storages()
    if json_output:
        show_json(records)
        return
    rows = [row for storage in records for row in _rows(storage)]
    show(STORAGES, rows, "There are no storages; load a federation with: pilotage federation load FILE")


def _rows(storage: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    first = (storage["name"], storage["site"], *_free(storage["space"]), ", ".join(storage["blacklisted"]))
    if not storage["breakers"]:
        return [(*first, "", "", storage.get("restriction", ""))]
    return [
        (*first, f"{breaker['what']}: {breaker['state']}", until(breaker), breaker["reason"])
        for breaker in storage["breakers"]
    ]


def _free(space: dict[str, Any]) -> tuple[str, str]:
    """Return the number with its origin, and when it was measured or why it was not."""
    from pilotage.explain.words import number
    from pilotage.model.values.phrases import moment

    if space["free"] is None:
        return "unknown", space["problem"]
    return f"{number(space['free'])} GB {space['source']}", (
        moment(space["measured"]) if space["measured"] is not None else space["problem"]
    )


add_verbs(app, "storage")
app.command(epilog="Example: pilotage storages move old-disk new-disk --dry-run")(storage_moving.move)
