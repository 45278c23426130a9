"""Submit tasks from a file or from standard input."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import submissions
from .configuration import connect
from .deciding import references
from .output import Json, echo, show_json, warn

if TYPE_CHECKING:
    from pilotage.client import Client, Record
    from pilotage.federation.source_files import SourceFile

app = typer.Typer()

Wait = Annotated[bool, typer.Option("--wait", help="Return when the tasks have ended; 1 if one failed.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show how they go on until they have ended.")]
Key = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="A name for this submission: the same key again names the same tasks, never new ones.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether to submit the same file again.")]


@app.command(
    epilog="Example: pilotage submit task.yaml --wait, or from standard input: pilotage submit - < task.yaml"
)
def submit(
    file: Annotated[
        Path, typer.Argument(help="A YAML or JSON file of one task or several; -: standard input.")
    ],
    wait: Wait = False,
    watch: Watch = False,
    key: Key = "",
    yes: Yes = False,
    json_output: Json = False,
) -> None:
    """Submit tasks and print their ids.

    With ``workflow: NAME`` beside ``tasks:`` they are a workflow, and may come after each other. A file with
    faults is refused as a whole, and every fault has its line, also what the server finds. A file holds at
    most 1000 tasks. On a terminal, the same file a second time is submitted only after a question.
    """
    from pilotage.client import Refused

    from . import following

    tasks, workflow = _read(source := _source(file))
    with connect() as client:
        if not (key or yes):
            submissions.ask_if_known(client, source.content)
        try:
            answer = _sent(client, workflow, tasks, key)
        except Refused as error:
            if json_output:
                show_json(error.answer)
            if error.is_of_tasks:
                raise source.refused((one.task, one.field, one.message) for one in error.faults) from None
            raise
        ids = [task["id"] for task in answer["tasks"]]
        submissions.remember(source.content, ids)
        if not json_output:
            _tell(answer)
        views = following.follow(client, ids, shown=watch and not json_output) if wait or watch else None
    if json_output:
        show_json({**answer, "tasks": views or answer["tasks"]})
    following.fail_unless_finished(views or [])


def _read(source: "SourceFile") -> tuple[list[Any], str]:
    """Return the documents of tasks, and the name of their workflow. The base installation checks less, and
    leaves the rest to the server."""
    if find_spec("pydantic") is None:
        from pilotage.federation.source_files import read_unchecked

        return read_unchecked(source)
    from pilotage.federation import documents
    from pilotage.model.documents.serialization import to_document

    specs = documents.read_tasks(source, references)
    return [to_document(spec) for spec in specs], documents.read_workflow_name(source)


def _sent(client: "Client", workflow: str, tasks: Sequence[Any], key: str) -> "Record":
    if workflow:
        return client.submit_workflow(workflow, tasks, key=key)
    return client.submit_all(tasks, key=key)


def _source(file: Path) -> "SourceFile":
    from pilotage.federation.source_files import SourceFile

    if str(file) != "-":
        return SourceFile.of(file)
    if sys.stdin.isatty():
        echo("the task comes from the terminal: end it with Ctrl-D", err=True)
    return SourceFile.of_stream("standard input", sys.stdin.buffer)


def _tell(answer: Any) -> None:
    if answer.get("id") is not None:
        echo(f"workflow:{answer['id']} {answer['name']}")
    for task in answer["tasks"]:
        echo(f"{task['id']} {task['name']}")
    warn(answer)
