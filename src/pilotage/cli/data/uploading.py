"""Upload files of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.data.fetching import bar
from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import Json, echo, show_json


def upload(
    path: Annotated[Path, typer.Argument(help="The file here.", metavar="PATH")],
    name: Annotated[str, typer.Argument(help="SCOPE:NAME, or a name in your VO's scope.", metavar="FILE")],
    storage: Annotated[
        str, typer.Option(help="Where it goes; empty: to the only storage that takes files.")
    ] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a file of this name that has other bytes.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Upload a file of this machine into the catalogue.

    It has its name when all its bytes are at the storage and its checksum is right. You may repeat it.
    """
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file")
    with connect() as client, bar(path.stat().st_size, quiet=json_output) as progress:
        description = f"checksum of {visible(path.name)}"

        def advance(size: int) -> None:
            nonlocal description
            # The file was read for its checksum, and is sent from its begin.
            description = visible(path.name) if size < 0 else description
            if progress is not None:
                progress.update(progress.task_ids[0], description=description, advance=size)

        uploaded = client.upload(path, name, storage=storage, replace=replace, advance=advance)
    if json_output:
        show_json(uploaded)
    elif uploaded["new"]:
        described = f"{uploaded['size']} bytes, {uploaded['checksum']}"
        echo(f"{uploaded['file']} is at {uploaded['storage']}: {described}")
    else:
        echo(f"{uploaded['file']} is there already, with the same bytes: at {uploaded['storage']}")
