"""Bring the outputs of tasks home."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import Json, console, echo, is_terminal, show_json
from pilotage.cli.terminal.subjects import Task, task_number
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from rich.progress import Progress

app = typer.Typer()


@app.command(epilog="Example: pilotage fetch 12 --merged --to results")
def fetch(
    task: Task,
    to: Annotated[Path, typer.Option("--to", help="The folder to put them into; it is made.")] = Path(),
    merged: Annotated[bool, typer.Option("--merged", help="Only what its merge jobs made.")] = False,
    match: Annotated[str, typer.Option(help="Only outputs with matching names, such as '*.root'.")] = "*",
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Also files and folders with a dot before their names.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Download a task's outputs: each job's to JOB/NAME, its merge job's to NAME, with folders.

    Size and checksum are checked. Existing files are not read again, and partial files continue. Files that
    are not of the task stay as they are. The file manifest.csv lists each output with its job and inputs.
    """
    with connect() as client:
        number = task_number(client, task)
        with bar(1, json_output) as progress_bar:

            def advance(name: str, more: int, total: int) -> None:
                if progress_bar is not None:
                    (row,) = progress_bar.task_ids
                    progress_bar.update(row, description=visible(name), advance=more, total=total)

            fetched = client.fetch(number, to, merged=merged, match=match, hidden=hidden, progress=advance)
    if fetched.lost:
        named = f"{fetched.lost[0]}{' and others' if len(fetched.lost) > 1 else ''}"
        verb = "is" if len(fetched.lost) == 1 else "are"
        echo(f"{plural(len(fetched.lost), 'output')} never arrived and {verb} left out: {named}", err=True)
    if fetched.no_manifest:
        echo(f"no manifest is written: {fetched.no_manifest}", err=True)
    if json_output:
        files = [{"file": output.file, "path": str(output.place.path)} for output in fetched.files]
        failed = list(fetched.failed.values())
        show_json({"files": files, "failed": failed, "manifest": fetched.manifest})
    elif not fetched.failed:
        echo(f"{plural(len(fetched.files), 'file')} of task {number} in {to}")
    fetched.check()


@contextmanager
def bar(size: int, quiet: bool) -> Iterator["Progress | None"]:
    """Show the progress of a download on a terminal: bytes so far, speed, and time left."""
    if quiet or not is_terminal():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Speed

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
    with Progress(*columns, DownloadColumn(), Speed(), TimeRemainingColumn(), console=console()) as progress:
        progress.add_task("", total=size)
        yield progress
