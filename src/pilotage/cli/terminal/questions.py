"""Questions to people at a terminal."""

import sys

import typer

from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import echo


def is_interactive() -> bool:
    """Return whether a person can answer: standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirmed(question: str) -> bool:
    """Ask a question on standard error. Return whether the answer is yes; no answer means no."""
    return typer.confirm(question, err=True)


def ask(action: str, named: str = "") -> None:
    """Ask whether to do ``action``, with a line before that is ``named``.

    Raises ``BadInput`` where no person can answer, ``CommandFailure`` if the answer is no.
    """
    if not is_interactive():
        raise BadInput(f"this would {action}; without a terminal to ask at, give --yes")
    if named:
        echo(named, err=True)
    if not confirmed(f"{action}?"):
        raise CommandFailure("nothing was changed")
