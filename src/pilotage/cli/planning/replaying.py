"""Repeat decisions of the last days from the worlds that the server kept."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import settings
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.planning.deciding import show_decision
from pilotage.cli.terminal.output import Column, Json, show, show_json

if TYPE_CHECKING:
    from pilotage.flow.outside.kept_worlds import KeptWorld

app = typer.Typer()

WORLDS = (Column("world"), Column("decided"), Column("step"), Column("kB", number=True))


@app.command(epilog="Example: pilotage replay\n\nExample: pilotage replay 20261127T020312Z-broker")
def replay(
    world: Annotated[
        str | None, typer.Argument(help="A kept world, as the list names it; without one, list them.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="List only worlds of this step.")] = None,
    json_output: Json = False,
) -> None:
    """List the worlds that the server kept, or decide from one again, without changing anything.

    It runs on the server's machine. From each quarter of an hour with a decision, the server keeps one
    world of each step, for PILOTAGE_WORLDS_KEPT days (2), in 256 MB at most. The same world gives the same
    decision, byte for byte.
    """
    from pilotage.flow.outside.kept_worlds import FOLDER, list_worlds

    worlds = list_worlds(settings().home / FOLDER)
    if world is None:
        _list([candidate for candidate in worlds if step in (None, candidate.step)], json_output)
        return
    chosen = next((candidate for candidate in worlds if candidate.name == world), None)
    if chosen is None:
        raise CommandFailure(f"no world {world!r} is kept here; pilotage replay lists them")
    _decide(chosen, json_output)


def _decide(chosen: "KeptWorld", json_output: bool) -> None:
    from pilotage.flow.outside.kept_worlds import read_kept

    try:
        saved = read_kept(chosen)
    except (OSError, ValueError) as error:
        raise BadInput(f"{chosen.file} cannot be read: {error}") from error
    show_decision(chosen.step, saved, chosen.file, json_output, debug=False)


def _list(worlds: "list[KeptWorld]", json_output: bool) -> None:
    from pilotage.model.values.phrases import moment

    if json_output:
        show_json([asdict(world.view) for world in worlds])
        return
    rows = [(world.name, moment(world.time), world.step, f"{world.size / 1000:.0f}") for world in worlds]
    show(WORLDS, rows, "No world is kept here: no server has decided anything lately, or keeps none.")
