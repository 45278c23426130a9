"""The verbs drain, close and open, the same for queues, sites and storages."""

from typing import Annotated

import typer

from pilotage.explain.restrictions import CLOSE, DRAIN, left
from pilotage.model.values.ends import end_of

from .configuration import connect
from .errors import BadInput
from .output import Json, echo, show_json

Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="Why, for everybody who asks.")]
Until = Annotated[
    str, typer.Option("--until", metavar="TIME", help="30m, 2h, 3d, or a time: it opens by itself then.")
]


def add_verbs(app: typer.Typer, kind: str) -> None:
    """Add the three verbs for queues, sites or storages to their commands."""
    name = Annotated[str, typer.Argument(metavar="NAME", help=f"The {kind}.")]
    example = f"Example: pilotage {kind}s"

    @app.command(epilog=f'{example} drain NAME --because "new disks" --until 2h', help=DRAIN[kind])
    def drain(place: name, because: Because, until: Until = "", json_output: Json = False) -> None:
        _restrict(kind, place, "drain", because, until, json_output)

    @app.command(epilog=f'{example} close NAME --because "power cut"', help=CLOSE[kind])
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


def _time(text: str) -> float:
    """Return a moment in s since 1970 UTC. Raises :class:`BadInput`."""
    from time import time

    try:
        return end_of(text, time())
    except ValueError as error:
        raise BadInput(f"--until {text}: {error}") from None
