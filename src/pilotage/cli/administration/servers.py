"""The servers that share a store: which live, what each does, and what it leaves to others."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import Column, Json, ago, echo, show, show_json, span

app = typer.Typer()

SERVERS = (
    Column("server"),
    Column("state"),
    Column("version"),
    Column("host", essential=False),
    Column("since"),
    Column("seen"),
    Column("loops"),
)
LOOPS = (Column("loop"), Column("last pass"), Column("took"), Column("lease"), Column("error"))


@app.command(epilog="Example: pilotage servers\n\nExample: pilotage servers 3f9a1c0b2d")
def servers(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Show the loops of this server, with their last passes.")
    ] = "",
    json_output: Json = False,
) -> None:
    """Show the server processes that share the store, and what each leaves to others.

    For operators. A server has a random name, new at each start. Others take over the work of one that beats
    no more. Those that have gone are shown for a day.
    """
    with connect() as client:
        found = client.servers()
    named = [one for one in found["servers"] if name in ("", one["name"])]
    if name and not named:
        raise BadInput(f"there is no server {name}; `pilotage servers` lists them")
    if json_output:
        show_json(named[0] if name else found)
    elif name:
        _show_loops(named[0])
    else:
        _show_all(found)


def _show_all(found: Mapping[str, Any]) -> None:
    known = {loop["name"] for one in found["servers"] for loop in one["loops"]} | {*found["missing_loops"]}
    rows = [
        (
            *(one["name"], one["state"], one["version"], one["host"]),
            *(f"{ago(one['started'])} ago", f"{ago(one['seen'])} ago", _loops(one, known)),
        )
        for one in found["servers"]
    ]
    show(SERVERS, rows, "No server has joined this store yet.")
    for one in found["servers"]:
        if one["silent_for"]:
            echo(f"{one['name']}: others took over after {one['silent_for']:.1f} s of silence")
        for lack in one["lacks"] if one["state"] == "live" else ():
            echo(f"{one['name']} leaves to others: {lack}")
    if found["missing_loops"]:
        echo(f"no server runs: {', '.join(found['missing_loops'])}; start one with `pilotage up --only ...`")
    echo(f"others take over from a server that beats no more within {found['takeover']:g} s")


def _loops(server: Mapping[str, Any], known: Collection[str]) -> str:
    loops = server["loops"]
    failing = [one["name"] for one in loops if one["error"]]
    held = [one["name"] for one in loops if one["has_lease"]]
    words = ["all" if len(loops) == len(known) else ", ".join(one["name"] for one in loops)]
    words += [f"failing: {', '.join(failing)}"] if failing else []
    words += [f"with the lease of {', '.join(held)}"] if held else []
    return "; ".join(words)


def _show_loops(server: Mapping[str, Any]) -> None:
    rows = [
        (
            one["name"],
            f"{ago(one['ended'])} ago" if one["ended"] else "none yet",
            span(one["seconds"]) if (one["seconds"] or 0) >= 1 else _milliseconds(one["seconds"]),
            "has it" if one["has_lease"] else "",
            one["error"],
        )
        for one in server["loops"]
    ]
    show(LOOPS, rows, "It has no loops.")


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f} ms"
