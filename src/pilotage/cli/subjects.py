"""Tasks, jobs and pilots as people name them on the command line."""

from .errors import BadInput


def number_of(word: str) -> int | None:
    """Return the number that a word is; None if it is none."""
    return int(word) if word.isascii() and word.isdigit() else None


def task_number(word: str) -> int:
    """Return the number of a task: ``12`` or ``task:12``."""
    number = number_of(word.removeprefix("task:"))
    if number is None:
        raise BadInput(f"{word!r} is no task's number; pilotage status lists tasks")
    return number
