"""The servers that share a store: which live, which work each does, and which it leaves to others."""

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

    For operators. A server has a random name, new at each start. When one stops beating, others take
    over its work. A server that has ended is shown for a day.
    """
    with connect() as client:
        document = client.servers()
    named = [server for server in document["servers"] if name in ("", server["name"])]
    if name and not named:
        raise BadInput(f"there is no server {name}; `pilotage servers` lists them")
    if json_output:
        show_json(named[0] if name else document)
    elif name:
        _show_loops(named[0])
    else:
        _show_all(document)


def _show_all(document: Mapping[str, Any]) -> None:
    loop_names = {loop["name"] for server in document["servers"] for loop in server["loops"]} | {
        *document["missing_loops"]
    }
    rows = [
        (
            *(server["name"], server["state"], server["version"], server["host"]),
            *(f"{ago(server['started'])} ago", f"{ago(server['seen'])} ago", _loops(server, loop_names)),
        )
        for server in document["servers"]
    ]
    show(SERVERS, rows, "No server has joined this store yet.")
    for server in document["servers"]:
        if server["silent_for"]:
            echo(f"{server['name']}: others took over after {server['silent_for']:.1f} s of silence")
        for lack in server["lacks"] if server["state"] == "live" else ():
            echo(f"{server['name']} leaves to others: {lack}")
    if document["missing_loops"]:
        loops = ", ".join(document["missing_loops"])
        echo(f"no server runs: {loops}; start one with `pilotage up --only ...`")
    echo(f"when a server stops beating, others take over within {document['takeover']:g} s")


def _loops(server: Mapping[str, Any], loop_names: Collection[str]) -> str:
    loops = server["loops"]
    failing = [loop["name"] for loop in loops if loop["error"]]
    leased = [loop["name"] for loop in loops if loop["has_lease"]]
    words = ["all" if len(loops) == len(loop_names) else ", ".join(loop["name"] for loop in loops)]
    words += [f"failing: {', '.join(failing)}"] if failing else []
    words += [f"with the lease of {', '.join(leased)}"] if leased else []
    return "; ".join(words)


def _show_loops(server: Mapping[str, Any]) -> None:
    rows = [
        (
            loop["name"],
            f"{ago(loop['ended'])} ago" if loop["ended"] else "none yet",
            span(loop["seconds"]) if (loop["seconds"] or 0) >= 1 else _milliseconds(loop["seconds"]),
            "has it" if loop["has_lease"] else "",
            loop["error"],
        )
        for loop in server["loops"]
    ]
    show(LOOPS, rows, "It has no loops.")


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f} ms"
