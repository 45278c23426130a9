"""Bring the outputs of tasks home."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import Json, console, echo, is_terminal, show_json
from pilotage.cli.terminal.subjects import TaskOrWorkflow, work_of
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from rich.progress import Progress

    from pilotage.client import Client
    from pilotage.client.output_files import FetchResult

app = typer.Typer()


@app.command(epilog="Example: pilotage fetch 12 --merged --to results, or pilotage fetch workflow:3")
def fetch(
    subject: Annotated[
        str, typer.Argument(help="A task or a workflow, by number or name.", metavar="TASK|WORKFLOW")
    ],
    to: Annotated[Path, typer.Option("--to", help="The folder to put them into; it is made.")] = Path(),
    merged: Annotated[bool, typer.Option("--merged", help="Only what its merge jobs made.")] = False,
    match: Annotated[str, typer.Option(help="Only outputs with matching names, such as '*.root'.")] = "*",
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Also files and folders with a dot before their names.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Download a task's outputs: each job's to JOB/NAME, its merge job's to NAME, with folders.

    Outputs of a workflow go to TASK/..., and a task's too if the folder has outputs of another one.
    Size and checksum are checked. Existing files are not read again, and partial files continue. Files that
    are not of the task stay as they are. The file manifest.csv lists each output with its job and inputs,
    and ro-crate-metadata.json describes what ran (pilotage manifest).
    """
    options: dict[str, Any] = {"merged": merged, "match": match, "hidden": hidden}
    with connect() as client:
        work = work_of(client, subject)
        if work.kind == "task":
            brought = [_fetched(client, work.number, to, options, json_output)]
        else:
            brought = _of_workflow(client, work, to, options, json_output)
    if json_output:
        files = [{"file": file.file, "path": str(file.place.path)} for one in brought for file in one.files]
        failed = [reason for one in brought for reason in one.failed.values()]
        manifests = [one.manifest for one in brought]
        document = {"manifest": manifests[0]} if work.kind == "task" else {"manifests": manifests}
        show_json({"files": files, "failed": failed, **document})
    for one in brought:
        one.check()


def _of_workflow(
    client: "Client", work: TaskOrWorkflow, to: Path, options: dict[str, Any], quiet: bool
) -> "list[FetchResult]":
    """Fetch the outputs of the stages of a workflow, each into a folder of its name. Skip ones without."""
    from pilotage.client import NotFound
    from pilotage.client.output_files import folder_name

    brought = []
    stages = client.workflow(work.number)
    skipped = [(stage["task"], stage["name"]) for stage in stages.get("stages", ()) if not stage["reason"]]
    for number, name in [*skipped, *((task["id"], task["name"]) for task in stages["tasks"])]:
        try:
            brought.append(_fetched(client, number, to / folder_name(name, number), options, quiet))
        except NotFound as error:
            echo(str(error), err=True)
    if not brought:
        raise CommandFailure(f"no task of workflow {work.number} has such outputs")
    return brought


def _fetched(client: "Client", number: int, to: Path, options: dict[str, Any], quiet: bool) -> "FetchResult":
    from pilotage.client import crates

    with bar(1, quiet) as progress_bar:

        def advance(name: str, more: int, total: int) -> None:
            if progress_bar is not None:
                (row,) = progress_bar.task_ids
                progress_bar.update(row, description=visible(name), advance=more, total=total)

        fetched = client.fetch(number, to, progress=advance, **options)
    if fetched.lost:
        named = f"{fetched.lost[0]}{' and others' if len(fetched.lost) > 1 else ''}"
        verb = "is" if len(fetched.lost) == 1 else "are"
        echo(f"{plural(len(fetched.lost), 'output')} never arrived and {verb} left out: {named}", err=True)
    if fetched.no_manifest:
        echo(f"no manifest is written: {fetched.no_manifest}", err=True)
    if fetched.no_crate:
        echo(f"no {crates.NAME} is written: {fetched.no_crate}", err=True)
    if not quiet and not fetched.failed:
        echo(f"{plural(len(fetched.files), 'file')} of task {number} in {fetched.folder}")
    return fetched


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
