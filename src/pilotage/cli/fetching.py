"""Bring the outputs of tasks home."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import BadInput, CommandFailure
from .layout import visible
from .output import Json, console, echo, plural, show_json
from .subjects import Task, task_number

if TYPE_CHECKING:
    from rich.progress import Progress

    from .client import Client
    from .download import WantedFile

app = typer.Typer()

MOST_TOLD = 10
"""Most failed files that are listed; of others only the number."""


@app.command(epilog="Example: pilotage fetch 12 --merged --to results")
def fetch(
    task: Task,
    to: Annotated[Path, typer.Option("--to", help="The folder to put them into; it is made.")] = Path(),
    merged: Annotated[bool, typer.Option("--merged", help="Only what its merge jobs made.")] = False,
    match: Annotated[str, typer.Option(help="Only outputs whose names match, such as '*.root'.")] = "*",
    json_output: Json = False,
) -> None:
    """Download a task's outputs: each job's to JOB/NAME, its merge job's to NAME, with folders.

    Size and checksum are checked. Existing files are not read again, and partial files continue.
    """
    from .client import Client

    with Client() as client:
        number = task_number(client, task)
        wanted = _wanted(client, number, to, merged, match)
        failed = _fetch(client, wanted, json_output)
    if json_output:
        show_json(
            {"files": [{"file": one.file, "path": str(one.place.path)} for one in wanted], "failed": failed}
        )
    elif not failed:
        echo(f"{plural(len(wanted), 'file')} of task {number} in {to}")
    if failed:
        more = [f"and {len(failed) - MOST_TOLD} more files"] if len(failed) > MOST_TOLD else []
        raise CommandFailure("; ".join([*failed[:MOST_TOLD], *more]))


def _wanted(client: "Client", task: int, to: Path, merged: bool, match: str) -> "list[WantedFile]":
    from fnmatch import fnmatchcase

    from .destination import Destination
    from .download import WantedFile

    outputs = client.get(f"/tasks/{task}/outputs")["files"]
    kinds = [file for file in outputs if not merged or file["kind"] == "merge"]
    found = [file for file in kinds if fnmatchcase(_path(file), match)]
    if not found:
        what = "merged outputs" if merged else "outputs"
        which = f" that match {match!r}" if kinds else f"; how far it is: pilotage status {task}"
        raise CommandFailure(f"task {task} has no {what}{which}")
    places: dict[str, Any] = {}
    for file in found:
        first = places.setdefault(_place(file), file)
        if first is not file:
            both = f"{first['file']} and {file['file']}"
            raise CommandFailure(f"{both} would both be {_place(file)}; choose one with --merged or --match")
    return [WantedFile.of(file, Destination(to, place)) for place, file in places.items()]


def _place(file: Any) -> str:
    """Return the target path of an output. Several jobs may use the same name."""
    if file["kind"] == "merge":
        return _path(file)
    if type(file["job"]) is not int:
        raise BadInput(
            f"the output {file['name']!r} is said to be of job {file['job']!r}, which is no number"
        )
    return f"{file['job']}/{_path(file)}"


def _path(file: Any) -> str:
    """Return the path of an output in its job's directory."""
    from pilotage.model.values.paths import is_file_name, path_in_job

    # The server may be anybody's: accept only names that outputs can have.
    if not (isinstance(file["name"], str) and is_file_name(file["name"])):
        raise BadInput(f"the output {file['name']!r} has no name that a file can have here")
    return path_in_job(file["name"])


def _fetch(client: "Client", wanted: "list[WantedFile]", quiet: bool) -> list[str]:
    """Download files in turn. Return the failures."""
    from functools import partial

    from .download import download

    failed = []
    with bar(sum(one.size for one in wanted), quiet) as progress:
        (shown,) = progress.task_ids
        for one in wanted:
            progress.update(shown, description=visible(one.name))
            try:
                download(client, one, partial(progress.advance, shown))
            except CommandFailure as failure:
                failed.append(f"{one.file}: {failure}")
            except OSError as error:
                failed.append(f"{one.file}: {error.filename or one.place.path}: {error.strerror}")
    return failed


@contextmanager
def bar(size: int, quiet: bool) -> Iterator["Progress"]:
    """Show the progress of a download on a terminal: bytes so far, speed, and time left."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Speed

    out = console()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
    disabled = quiet or not out.is_terminal
    progress = Progress(
        *columns, DownloadColumn(), Speed(), TimeRemainingColumn(), console=out, disable=disabled
    )
    progress.add_task("", total=size)
    with progress:
        yield progress
