"""The verbs drain, close and open, the same for queues, sites and storages."""

import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json
from pilotage.explain.restrictions import CLOSE, DRAIN, describe_remains
from pilotage.model.values.durations import end_of

if TYPE_CHECKING:
    from pilotage.client import Client, Record

Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="Why, for everybody who asks.")]
Until = Annotated[
    str, typer.Option("--until", metavar="TIME", help="30m, 2h, 3d, or a time: it opens by itself then.")
]

Watch = Annotated[bool, typer.Option("--watch", help="Go on until nothing is left there, and say so.")]

PERIOD = 2.0
"""Seconds between two looks of --watch."""


class RestrictionRequest(NamedTuple):
    """A drain or a closure to ask for: kind and name of the place, mode, reason, and end as text."""

    kind: str
    place: str
    mode: str
    because: str
    until: str

    @property
    def text(self) -> str:
        """Return ``queue north-short is draining``."""
        return f"{self.kind} {self.place} is {'draining' if self.mode == 'drain' else 'closed'}"


def add_verbs(app: typer.Typer, kind: str) -> None:
    """Add the three verbs for queues, sites or storages to their commands."""
    name = Annotated[str, typer.Argument(metavar="NAME", help=f"The {kind}.")]
    example = f"Example: pilotage {kind}s"

    @app.command(epilog=f'{example} drain NAME --because "new disks" --until 2h', help=DRAIN[kind])
    def drain(
        place: name, because: Because, until: Until = "", watch: Watch = False, json_output: Json = False
    ) -> None:
        _restrict(RestrictionRequest(kind, place, "drain", because, until), watch, json_output)

    @app.command(epilog=f'{example} close NAME --because "power cut"', help=CLOSE[kind])
    def close(place: name, because: Because, until: Until = "", json_output: Json = False) -> None:
        _restrict(RestrictionRequest(kind, place, "close", because, until), False, json_output)

    @app.command("open", epilog=f"{example} open NAME", help=f"Open a {kind} that was drained or closed.")
    def open_(place: name, json_output: Json = False) -> None:
        with connect() as client:
            answer = client.open_place(kind, place)
        if json_output:
            show_json(answer)
        elif still := answer.get("still"):
            echo(f"{kind} {place} is not open yet: {still}")
        else:
            echo(f"{kind} {place} is open" + ("" if answer["opened"] else ": it was open before"))


def _restrict(request: RestrictionRequest, watch: bool, json_output: bool) -> None:
    until = _time(request.until) if request.until else None
    with connect() as client:
        restrict = client.drain if request.mode == "drain" else client.close_place
        document: Record | None = restrict(request.kind, request.place, because=request.because, until=until)
        progress = ""
        while watch and document and not document["empty"]:
            if progress != (progress := describe_remains(document)):
                echo(f"{request.text}; {progress}", err=True)
            time.sleep(PERIOD)
            document = _find_restriction(client, request)
    if document is None:
        raise CommandFailure(f"{request.kind} {request.place} was opened before it was empty")
    if json_output:
        show_json(document)
    else:
        echo(f"{request.text}; {describe_remains(document)}")


def _find_restriction(client: "Client", request: RestrictionRequest) -> "Record | None":
    """Return the restriction with the work that is left now; None if it has ended."""
    place = (request.kind, request.place)
    return next(
        (
            restriction
            for restriction in client.restrictions()
            if (restriction["kind"], restriction["name"]) == place
        ),
        None,
    )


def _time(text: str) -> float:
    """Return a moment in s since 1970 UTC. Raises ``BadInput``."""
    try:
        return end_of(text, time.time())
    except ValueError as error:
        raise BadInput(f"--until {text}: {error}") from None
