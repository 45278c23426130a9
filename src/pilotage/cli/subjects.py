"""Tasks as people name them on the command line: by number, or by name."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import BadInput, CommandFailure

if TYPE_CHECKING:
    from .client import Client

Task = Annotated[str, typer.Argument(help="A task by number or name.")]

KINDS = ("job", "pilot", "transfer")


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]*")


def number_of(word: str) -> int | None:
    """Return the number that a word is; None if it is none."""
    return int(word) if word.isascii() and word.isdigit() else None


def task_number(client: "Client", word: str) -> int:
    """Return the number of a task: ``12``, ``task:12``, or a name, which is the caller's newest such task.

    Raises CommandFailure if no task of the caller has the name.
    """
    plain = word.removeprefix("task:")
    number = number_of(plain)
    if number is not None:
        return number
    kind, colon, _ = plain.partition(":")
    if colon and kind.lower() in KINDS:
        raise BadInput(f"{word!r} is no task; give its number or its name")
    if not _NAME.fullmatch(plain):
        raise BadInput(f"{word!r} is neither the number nor the name of a task")
    found = client.get("/tasks", name=plain, mine="true", limit=1)["tasks"]
    if not found:
        raise CommandFailure(f"you have no task of the name {plain!r}; pilotage status lists tasks")
    return int(found[0]["id"])


def task_numbers(client: "Client", words: Iterable[str]) -> list[int]:
    """Return the numbers of tasks, each once."""
    return list(dict.fromkeys(task_number(client, word) for word in words))
