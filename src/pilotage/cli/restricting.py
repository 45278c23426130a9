"""The verbs drain, close and open, the same for queues, sites and storages."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from .configuration import connect
from .errors import BadInput
from .output import Json, echo, plural, show_json

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0}
_DRAIN = {
    "queue": "Start nothing new at a queue: its waiting jobs go elsewhere at once, running ones end there.",
    "site": "Start nothing new at a site: waiting jobs go elsewhere at once, running ones end there.",
    "storage": "Write no new files to a storage. Files there are still read.",
}
_CLOSE = {
    "queue": "Start nothing at a queue until it opens. Its jobs wait there, and no time-out ends them.",
    "site": "Start nothing at a site, and leave its storages alone, until it opens. Its jobs wait.",
    "storage": "Neither read from a storage nor write to it until it opens.",
}

Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="Why, for everybody who asks.")]
Until = Annotated[
    str, typer.Option("--until", metavar="TIME", help="30m, 2h, 3d, or a time: it opens by itself then.")
]


def add_verbs(app: typer.Typer, kind: str) -> None:
    """Add the three verbs for queues, sites or storages to their commands."""
    name = Annotated[str, typer.Argument(metavar="NAME", help=f"The {kind}.")]
    example = f"Example: pilotage {kind}s"

    @app.command(epilog=f'{example} drain NAME --because "new disks" --until 2h', help=_DRAIN[kind])
    def drain(place: name, because: Because, until: Until = "", json_output: Json = False) -> None:
        _restrict(kind, place, "drain", because, until, json_output)

    @app.command(epilog=f'{example} close NAME --because "power cut"', help=_CLOSE[kind])
    def close(place: name, because: Because, until: Until = "", json_output: Json = False) -> None:
        _restrict(kind, place, "close", because, until, json_output)

    @app.command("open", epilog=f"{example} open NAME", help=f"Open a {kind} that was drained or closed.")
    def open_(place: name, json_output: Json = False) -> None:
        with connect() as client:
            was_restricted = client.open_place(kind, place)
        if json_output:
            show_json({"opened": was_restricted})
        else:
            echo(f"{kind} {place} is open" + ("" if was_restricted else ": it was open before"))


def _restrict(kind: str, place: str, mode: str, because: str, until: str, json_output: bool) -> None:
    end = _time(until) if until else None
    with connect() as client:
        restrict = client.drain if mode == "drain" else client.close_place
        document = restrict(kind, place, because=because, until=end)
    if json_output:
        show_json(document)
        return
    echo(f"{kind} {place} is {'draining' if mode == 'drain' else 'closed'}; {left(document)}")


def left(restriction: Mapping[str, Any]) -> str:
    """Return what a restricted place still has, in words."""
    if restriction["empty"]:
        return "nothing is left there"
    words = {"waiting": "waiting job", "running": "running job", "leaving": "job with outputs on the way"}
    told = [plural(restriction[key], noun) for key, noun in words.items() if restriction[key]]
    if restriction["transfers"]:
        told.append(plural(restriction["transfers"], "live transfer"))
    return f"still there: {', '.join(told)}"


def _time(text: str) -> float:
    """Return a moment in s since 1970 UTC. Raises :class:`BadInput`."""
    from time import time

    if span := re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([mhd])", text):
        return time() + float(span[1]) * _UNITS[span[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise BadInput(f"--until {text}: give 30m, 2h, 3d, or a time such as 2026-11-30T18:00") from None
