"""Submit tasks from a file or from standard input."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.exit_codes import tell
from pilotage.cli.planning.deciding import references
from pilotage.cli.terminal.output import Json, echo, show_json, warn
from pilotage.cli.work import submissions
from pilotage.client.errors import ClientError, Refused
from pilotage.federation.faults import BadFile
from pilotage.model.values.phrases import reuse

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
Resume = Annotated[
    bool, typer.Option("--resume", help="Of a workflow: skip stages that have not changed since it last ran.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether to submit the same file again.")]


class FileTerms(NamedTuple):
    """How files are submitted: under a key, without a question, without stages that have not changed."""

    key: str
    yes: bool
    resume: bool


@dataclass(frozen=True, slots=True)
class SubmittedFile:
    """What became of a file: the server's answer, if it gave one, and why the file was not accepted."""

    file: Path
    answer: Mapping[str, Any] | None
    failure: BadFile | CommandFailure | ClientError | None = None

    @property
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """Return the accepted tasks."""
        tasks: Sequence[Mapping[str, Any]] = (self.answer or {}).get("tasks", ())
        return tasks


@app.command(
    epilog="Example: pilotage submit task.yaml --wait, or from standard input: pilotage submit - < task.yaml"
)
def submit(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="YAML or JSON files of tasks; -: standard input."),
    ],
    wait: Wait = False,
    watch: Watch = False,
    key: Key = "",
    yes: Yes = False,
    resume: Resume = False,
    json_output: Json = False,
) -> None:
    """Submit tasks and print their ids.

    With ``workflow: NAME`` beside ``tasks:`` they are a workflow, and may come after each other. A file with
    faults is refused as a whole, and every fault has its line, also what the server finds. The
    others of several files are still submitted, and the exit code is 2. A file holds at most 1000 tasks. On a
    terminal, the same file a second time is submitted only after a question. With --resume, earlier tasks
    stand for stages of the same command, parameters, environment and inputs, if their outputs are there.
    """
    from pilotage.cli.work import following

    if len(files) > 1 and (key or Path("-") in files):
        raise BadInput("--key and standard input allow one file")
    with connect() as client:
        done, code = _submit_each(client, files, FileTerms(key, yes, resume), json_output)
        ids = [task["id"] for file in done for task in file.tasks]
        views = (
            following.follow(client, ids, is_shown=watch and not json_output)
            if ids and (wait or watch)
            else []
        )
    if json_output:
        _show(done, views, is_one=len(files) == 1)
    try:
        following.fail_unless_finished(views)
    except CommandFailure as failure:
        code = max(code, tell(failure))
    raise typer.Exit(code)


def _submit_each(
    client: "Client", files: Sequence[Path], terms: FileTerms, json_output: bool
) -> tuple[list[SubmittedFile], int]:
    """Submit files, each in its request. Return the result of each, and the exit code.

    The others go on after a refused file, but not after a failure of the server.
    """
    done: list[SubmittedFile] = []
    code = 0
    for at, file in enumerate(files):
        done.append(submission := _submission(client, file, terms))
        if submission.failure is None:
            if not json_output:
                _show_ids(submission.answer)
            continue
        code = max(code, tell(submission.failure))
        rest = files[at + 1 :]
        if (
            rest
            and isinstance(submission.failure, ClientError)
            and not isinstance(submission.failure, Refused)
        ):
            echo(f"not submitted: {' '.join(map(str, rest))}", err=True)
            break
    return done, code


def _submission(client: "Client", file: Path, terms: FileTerms) -> SubmittedFile:
    answer: Mapping[str, Any] | None = None
    try:
        tasks, workflow = _read(source := _source(file))
        if terms.resume and not workflow:
            raise BadInput(f"{file}: --resume is for a workflow: give it a name with workflow: NAME")
        if not (terms.key or terms.yes or terms.resume):
            submissions.ask_if_known(client, source.content)
        try:
            answer = _send(client, workflow, tasks, terms)
        except Refused as error:
            answer = error.answer
            if error.is_of_tasks:
                raise source.refused(
                    (fault.task, fault.field, fault.message) for fault in error.faults
                ) from None
            raise
    except (BadFile, CommandFailure, ClientError) as failure:
        return SubmittedFile(file, answer, failure)
    submission = SubmittedFile(file, answer)
    submissions.remember(source.content, [task["id"] for task in submission.tasks])
    return submission


def _show(done: Sequence[SubmittedFile], views: Sequence[Mapping[str, Any]], is_one: bool) -> None:
    """Show one answer as it is, and several in a list, with the file of each."""
    by_id = {view["id"]: view for view in views}
    answers: list[dict[str, Any]] = []
    for submission in done:
        tasks = [by_id.get(task["id"], task) for task in submission.tasks]
        answer = {**(submission.answer or {}), **({"tasks": tasks} if tasks else {})}
        defaults = {
            "file": str(submission.file),
            "tasks": [],
            "refused": [],
            "error": str(submission.failure or ""),
        }
        answers.append(answer if is_one else {**defaults, **answer})
    if not is_one:
        show_json({"files": answers})
    elif done[0].answer is not None:
        show_json(answers[0])


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


def _send(client: "Client", workflow: str, tasks: Sequence[Any], terms: FileTerms) -> "Record":
    if workflow:
        return client.submit_workflow(workflow, tasks, key=terms.key, resume=terms.resume)
    return client.submit_all(tasks, key=terms.key)


def _source(file: Path) -> "SourceFile":
    from pilotage.federation.source_files import SourceFile

    if str(file) != "-":
        return SourceFile.of(file)
    if sys.stdin.isatty():
        echo("the task comes from the terminal: end it with Ctrl-D", err=True)
    return SourceFile.of_stream("standard input", sys.stdin.buffer)


def _show_ids(answer: Any) -> None:
    if answer.get("id") is not None:
        echo(f"workflow:{answer['id']} {answer['name']}")
    for task in answer["tasks"]:
        echo(f"{task['id']} {task['name']}")
    for stage in answer.get("stages", ()):
        echo(reuse(stage["name"], stage["task"], stage["reason"]))
    if not answer["tasks"]:
        echo("nothing runs: every stage is done")
    warn(answer)
