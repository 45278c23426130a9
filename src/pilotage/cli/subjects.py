"""Tasks as people name them on the command line: by number, or by name."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .errors import BadInput, CommandFailure

if TYPE_CHECKING:
    from .client import Client

Task = Annotated[str, typer.Argument(help="A task by number or name.")]

KINDS = ("job", "pilot", "transfer")
WORKFLOW = "workflow"
_LISTED = "pilotage workflows lists them"


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]*")


def number_of(word: str) -> int | None:
    """Return the number that a word is; None if it is none."""
    return int(word) if word.isascii() and word.isdigit() else None


class TaskOrWorkflow(NamedTuple):
    """A task or a workflow, by number."""

    kind: str
    number: int


def task_number(client: "Client", word: str) -> int:
    """Return the number of a task: ``12``, ``task:12``, or a name, which is the caller's newest such task.

    Raises CommandFailure if no task of the caller has the name.
    """
    plain = word.removeprefix("task:")
    if (number := number_of(plain)) is not None:
        return number
    kind, colon, _ = plain.partition(":")
    if colon and kind.lower() in (*KINDS, WORKFLOW):
        raise BadInput(f"{word!r} is no task; give its number or its name")
    if not _NAME.fullmatch(plain):
        raise BadInput(f"{word!r} is neither the number nor the name of a task")
    if (named := _newest(client, "tasks", plain)) is None:
        raise CommandFailure(f"you have no task of the name {plain!r}; pilotage status lists tasks")
    return named


def work_of(client: "Client", word: str) -> TaskOrWorkflow:
    """Return a task or a workflow: ``workflow:3``, ``workflow:NAME``, or a name that none of your tasks has.

    Raises as :func:`task_number` does.
    """
    kind, colon, plain = word.partition(":")
    if colon and kind.lower() == WORKFLOW:
        number = number_of(plain)
        number = _newest(client, "workflows", plain) if number is None else number
        if number is None:
            raise CommandFailure(f"you have no workflow of the name {plain!r}; {_LISTED}")
        return TaskOrWorkflow(WORKFLOW, number)
    try:
        return TaskOrWorkflow("task", task_number(client, word))
    except CommandFailure as failure:
        workflow = None if failure.code != CommandFailure.code else _newest(client, "workflows", word)
        if workflow is None:
            raise
        return TaskOrWorkflow(WORKFLOW, workflow)


def tasks_of(client: "Client", work: TaskOrWorkflow) -> list[Any]:
    """Return the tasks of a workflow, each after its predecessors."""
    found: list[Any] = client.get(f"/workflows/{work.number}")["tasks"]
    return found


def task_numbers(client: "Client", words: Iterable[str]) -> list[int]:
    """Return the numbers of tasks, each once; a workflow stands for its tasks, first ones first."""
    found: list[int] = []
    for work in (work_of(client, word) for word in words):
        found += [work.number] if work.kind == "task" else [view["id"] for view in tasks_of(client, work)]
    return list(dict.fromkeys(found))


def _newest(client: "Client", what: str, name: str) -> int | None:
    """Return the caller's newest task or workflow of a name."""
    found = client.get(f"/{what}", name=name, mine="true", limit=1)[what]
    return int(found[0]["id"]) if found else None
