"""Print the manifest of a task, submit its task again, and compare the outputs of both."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json
from pilotage.cli.terminal.subjects import Task, task_number
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.client.crates import Manifest

app = typer.Typer()

MOST_LINES = 50
"""Most inputs or outputs that are named."""

_ManifestFile = Annotated[
    Path, typer.Argument(help="A manifest, or the folder that has it: see pilotage manifest.")
]
_Secrets = Annotated[
    bool, typer.Option("--secrets", help="Let it read the secrets of yours that the manifest names.")
]


@app.command(epilog="Example: pilotage manifest 12 > ro-crate-metadata.json")
def manifest(
    task: Task,
    json_output: Json = False,  # noqa: ARG001 -- a manifest is JSON with it and without
) -> None:
    """Print what a task that has ended ran, where, with which inputs and outputs: an RO-Crate, as JSON."""
    with connect() as client, client.manifest_content(task) as chunks:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


@app.command(epilog="Example: pilotage rerun results/ro-crate-metadata.json --wait")
def rerun(
    file: _ManifestFile,
    changed: Annotated[
        bool, typer.Option("--changed", help="Also with inputs that have changed: as they are now.")
    ] = False,
    secrets: _Secrets = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end, and compare outputs; 1 if some differ.")
    ] = False,
    compare: Annotated[
        str, typer.Option("--compare", metavar="TASK", help="Only compare the outputs of this task.")
    ] = "",
    json_output: Json = False,
) -> None:
    """Submit the task of a manifest again, if its inputs are as they were.

    If inputs are gone or have changed, it names them and submits nothing. The new task waits for no other
    task. With --wait or --compare it names the outputs that differ from the manifest.
    """
    if compare and (changed or secrets or wait):
        raise BadInput("--compare submits nothing; leave out --changed, --secrets and --wait")
    with connect() as client:
        read = _read(file)
        if compare:
            number = task_number(client, compare)
        else:
            number = _submitted(client, read, changed, secrets, json_output)
        if wait:
            from pilotage.cli.work import following

            views = following.follow(client, [number], is_shown=not json_output)
            following.fail_unless_finished(views)
        differing = read.differing(client.outputs(number)) if wait or compare else None
    if json_output:
        show_json({"task": number, **({} if differing is None else {"differing": differing})})
    if differing:
        _name(differing)
        raise CommandFailure(f"task {number}: {plural(len(differing), 'output')} unlike the manifest")
    if differing is not None and not json_output:
        echo(f"task {number}: {plural(len(read.outputs), 'output')} equal to the manifest")


def _read(file: Path) -> "Manifest":
    from pilotage.client.crates import BadManifest, Manifest

    try:
        return Manifest.of(file)
    except BadManifest as error:
        raise BadInput(str(error)) from error


def _submitted(client: "Client", read: "Manifest", changed: bool, secrets: bool, quiet: bool) -> int:
    """Submit the task again, and return its number. Name the inputs or secrets that keep it from that."""
    from pilotage.client import Refused

    try:
        document = client.rerun_document(read, changed=changed, secrets=secrets)
    except Refused as refused:
        if not refused.faults or refused.answer:
            raise
        if refused.faults[0].field == "secrets":
            command = shlex.join(map(str, read.document.get("command") or ()))
            raise CommandFailure(
                f"not submitted: {refused}; --secrets allows it. It runs: {command}"
            ) from None
        _name([fault.message for fault in refused.faults])
        count = plural(len(refused.faults), "input")
        remedy = "" if changed else "; --changed reads changed inputs as they are now"
        raise CommandFailure(f"not submitted: {count} changed or gone{remedy}") from None
    task = client.submit(document)
    if not quiet:
        echo(f"{task.id} {task.name}")
    return task.id


def _name(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        echo(line, err=True)
    if len(lines) > MOST_LINES:
        echo(f"and {len(lines) - MOST_LINES} more", err=True)
