"""Bring the outputs of tasks home."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import fetched_manifest, task_outputs
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

MOST_SHOWN = 200
"""Characters of a wrong value that are shown."""

MOST_JOBS = 1 << 63
"""Numbers of jobs are below this."""


@app.command(epilog="Example: pilotage fetch 12 --merged --to results")
def fetch(
    task: Task,
    to: Annotated[Path, typer.Option("--to", help="The folder to put them into; it is made.")] = Path(),
    merged: Annotated[bool, typer.Option("--merged", help="Only what its merge jobs made.")] = False,
    match: Annotated[str, typer.Option(help="Only outputs whose names match, such as '*.root'.")] = "*",
    json_output: Json = False,
) -> None:
    """Download a task's outputs: each job's to JOB/NAME, its merge job's to NAME, with folders.

    Size and checksum are checked. Existing files are not read again, and partial files continue. The file
    manifest.csv beside them lists each output with its job, inputs and checksum.
    """
    from .client import Client

    with Client() as client:
        number = task_number(client, task)
        outputs = _outputs(client, number, merged, match)
        wanted = _wanted(outputs, to)
        failed = _fetch(client, [one for one, _ in wanted], json_output)
        fetched = [(one, output) for one, output in wanted if one.file not in failed]
        manifest = fetched_manifest.write(client, number, to, fetched)
    if json_output:
        files = [{"file": one.file, "path": str(one.place.path)} for one, _ in wanted]
        show_json({"files": files, "failed": list(failed.values()), "manifest": manifest})
    elif not failed:
        echo(f"{plural(len(wanted), 'file')} of task {number} in {to}")
    if failed:
        more = [f"and {len(failed) - MOST_TOLD} more files"] if len(failed) > MOST_TOLD else []
        raise CommandFailure("; ".join([*list(failed.values())[:MOST_TOLD], *more]))


def _outputs(client: "Client", task: int, merged: bool, match: str) -> list[Any]:
    """Return the outputs that are asked for and have arrived somewhere. Say how many never did."""
    from fnmatch import fnmatchcase

    outputs = task_outputs.listed(client, task)
    kinds = [file for file in outputs if not merged or file.get("kind") == "merge"]
    found = [file for file in kinds if match == _path(file) or fnmatchcase(_path(file), match)]
    if not found:
        what = "merged outputs" if merged else "outputs"
        which = f" that match {match!r}" if kinds else f"; how far it is: pilotage status {task}"
        raise CommandFailure(f"task {task} has no {what}{which}")
    arrived = [file for file in found if file.get("replicas")]
    if not arrived:
        raise CommandFailure(f"none of the {plural(len(found), 'output')} of task {task} is at a storage")
    if lost := [file["name"] for file in found if not file.get("replicas")]:
        named = f"{lost[0]}{' and others' if len(lost) > 1 else ''}"
        verb = "is" if len(lost) == 1 else "are"
        echo(f"{plural(len(lost), 'output')} never arrived and {verb} left out: {named}", err=True)
    return arrived


def _wanted(found: list[Any], to: Path) -> "list[tuple[WantedFile, Any]]":
    """Return outputs with their places here. Raises CommandFailure where two have the same."""
    from .destination import Destination
    from .download import WantedFile

    places: dict[str, Any] = {}
    for file in found:
        # Shells, editors and git obey hidden files of a current directory, and the server may be anybody's.
        if to == Path() and _place(file).startswith("."):
            raise BadInput(f"the output {_place(file)!r} is hidden: name the folder to put it into with --to")
        first = places.setdefault(_place(file), file)
        if first is not file:
            both = f"{first.get('file')} and {file.get('file')}"
            raise CommandFailure(f"{both} would both be {_place(file)}; choose one with --merged or --match")
    return [(WantedFile.of(file, Destination(to, place)), file) for place, file in places.items()]


def _place(file: dict[str, Any]) -> str:
    """Return the target path of an output. Several jobs may use the same name."""
    if file.get("kind") == "merge":
        return _path(file)
    job = file.get("job")
    if type(job) is not int or not 0 < job < MOST_JOBS:
        name, said = repr(file.get("name"))[:MOST_SHOWN], repr(job)[:MOST_SHOWN]
        raise BadInput(f"the output {name} is said to be of job {said}, which is no number of a job")
    return f"{job}/{_path(file)}"


def _path(file: dict[str, Any]) -> str:
    """Return the path of an output in its job's directory."""
    from pilotage.model.values.paths import is_file_name, path_in_job

    # The server may be anybody's: accept only names that outputs can have.
    name = file.get("name")
    if not (isinstance(name, str) and is_file_name(name)):
        raise BadInput(f"the output {repr(name)[:MOST_SHOWN]} has no name that a file can have here")
    return path_in_job(name)


def _fetch(client: "Client", wanted: "list[WantedFile]", quiet: bool) -> dict[str, str]:
    """Download files in turn. Return the failures by file."""
    from functools import partial

    from .download import download

    failed = {}
    with bar(sum(one.size for one in wanted), quiet) as progress:
        (shown,) = progress.task_ids
        for one in wanted:
            progress.update(shown, description=visible(one.name))
            try:
                download(client, one, partial(progress.advance, shown))
            except CommandFailure as failure:
                failed[one.file] = f"{one.file}: {failure}"
            except OSError as error:
                failed[one.file] = f"{one.file}: {error.filename or one.place.path}: {error.strerror}"
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
