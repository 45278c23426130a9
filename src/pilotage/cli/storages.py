"""Storages: their free space (B18), and which of them are paused because deliveries fail there (F4)."""

from typing import Annotated, Any

import typer

from .output import Column, Json, echo, show, show_json

app = typer.Typer()

STORAGES = (
    Column("storage"),
    Column("site", essential=False),
    Column("free"),
    Column("as of", essential=False),
    Column("closed"),
    Column("rests"),
    Column("until"),
    Column("error", essential=False),
)


@app.command(epilog="Example: pilotage storages --lift north-disk")
def storages(
    lift: Annotated[
        str, typer.Option(metavar="STORAGE", help="Lift the rests of a storage: all is tried at once.")
    ] = "",
    json_output: Json = False,
) -> None:
    """Show storages, their free space, and which are paused because deliveries fail there, until when and
    why.

    Free space is measured (the storage reported it at the time shown) or declared (the federation states it).
    """
    from urllib.parse import quote

    from .client import Client

    with Client() as client:
        document = (
            client.send("POST", f"/storages/{quote(lift, safe='')}/lift") if lift else client.get("/storages")
        )
    if json_output:
        show_json(document)
    elif lift:
        for rest in document["lifted"]:
            echo(f"lifted: {_what(rest)}")
        if not document["lifted"]:
            echo(f"nothing of {lift} rests")
    else:
        rows = [row for storage in document["storages"] for row in _rows(storage)]
        show(STORAGES, rows, "There are no storages; load a federation with: pilotage federation load FILE")


def _rows(storage: dict[str, Any]) -> list[tuple[Any, ...]]:
    first = (storage["name"], storage["site"], *_free(storage["space"]), ", ".join(storage["blacklisted"]))
    if not storage["rests"]:
        return [(*first, "", "", "")]
    return [(*first, _what(rest), _until(rest), rest["error"]) for rest in storage["rests"]]


def _free(space: dict[str, Any]) -> tuple[str, str]:
    """Return the number with its origin, and when it was measured or why it was not."""
    from pilotage.explain.words import moment, number

    if space["free"] is None:
        return "unknown", space["problem"]
    return f"{number(space['free'])} GB {space['source']}", (
        moment(space["measured"]) if space["measured"] is not None else space["problem"]
    )


def _what(rest: dict[str, Any]) -> str:
    source, destination = rest["source"], rest["destination"]
    if source and destination:
        return f"from {source} to {destination}"
    return "reading" if source else "writing"


def _until(rest: dict[str, Any]) -> str:
    from pilotage.explain.words import moment

    return "one delivery tries" if rest["over"] else moment(rest["until"])
