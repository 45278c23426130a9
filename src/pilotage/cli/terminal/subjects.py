"""Tasks as people name them on the command line: by number, or by name."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pilotage.cli.errors import BadInput, CommandFailure

if TYPE_CHECKING:
    from pilotage.client import Client

Task = Annotated[str, typer.Argument(help="A task by number or name.")]

KINDS = ("job", "pilot", "transfer", "queue")
"""Kinds of records besides tasks and workflows that are explained."""

WORKFLOW = "workflow"
_LISTED = "pilotage workflows lists them"


class TaskOrWorkflow(NamedTuple):
    """A task or a workflow, by number."""

    kind: str
    number: int


def task_number(client: "Client", word: str) -> int:
    """Return the number of a task: ``12``, ``task:12``, or a name, which is the caller's newest such task."""
    subject = client.subject(word)
    if subject.kind != "task":
        hint = f"; of a {subject.kind}: pilotage explain {word}" if subject.kind in KINDS else ""
        raise BadInput(f"{word!r} is no task; give its number or its name{hint}")
    return int(subject.id)


def work_of(client: "Client", word: str) -> TaskOrWorkflow:
    """Return a task or a workflow: ``workflow:3``, ``workflow:NAME``, or a name that none of your tasks has.

    Raises as ``task_number`` does.
    """
    from pilotage.client import NotFound
    from pilotage.client.subjects import number_of

    kind, colon, plain = word.partition(":")
    if colon and kind.lower() == WORKFLOW:
        number = number_of(plain)
        number = _newest_workflow(client, plain) if number is None else number
        if number is None:
            raise CommandFailure(f"you have no workflow of the name {plain!r}; {_LISTED}")
        return TaskOrWorkflow(WORKFLOW, number)
    try:
        return TaskOrWorkflow("task", task_number(client, word))
    except NotFound:
        workflow = _newest_workflow(client, word)
        if workflow is None:
            raise
        return TaskOrWorkflow(WORKFLOW, workflow)


def tasks_of(client: "Client", work: TaskOrWorkflow) -> list[Any]:
    """Return the tasks of a workflow, each after its predecessors."""
    tasks: list[Any] = client.workflow(work.number)["tasks"]
    return tasks


def task_numbers(client: "Client", words: Iterable[str]) -> list[int]:
    """Return the numbers of tasks, each once; a workflow means all its tasks, first ones first."""
    numbers: list[int] = []
    for work in (work_of(client, word) for word in words):
        numbers += [work.number] if work.kind == "task" else [view["id"] for view in tasks_of(client, work)]
    return list(dict.fromkeys(numbers))


def _newest_workflow(client: "Client", name: str) -> int | None:
    """Return the caller's newest workflow of a name."""
    page = client.workflows(name=name, mine=True, limit=1)
    return int(page[0]["id"]) if page else None
