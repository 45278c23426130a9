"""How commands end: 0 after success, otherwise one of these codes and one sentence on standard error."""

from contextlib import suppress
from typing import TYPE_CHECKING

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import echo
from pilotage.federation.faults import BadFile

if TYPE_CHECKING:
    from pilotage.client import ClientError

MOST_FAULTS = 50
"""Most faults of a file that are shown."""

UNREACHABLE = 3
"""The server does not answer."""


def tell(failure: "BadFile | CommandFailure | ClientError") -> int:
    """Say on standard error why a command failed. Return its exit code."""
    if isinstance(failure, CommandFailure):
        echo(str(failure), err=True)
        return failure.code
    if isinstance(failure, BadFile):
        for fault in failure.faults[:MOST_FAULTS]:
            echo(str(fault), err=True)
        if remaining := len(failure.faults[MOST_FAULTS:]):
            echo(f"and {remaining} more faults", err=True)
        return BadInput.code
    echo(str(with_versions(failure)), err=True)
    return exit_code(failure)


def exit_code(error: "ClientError") -> int:
    """Return the exit code of a command after a failed request."""
    from pilotage.client import Refused, Unreachable

    if isinstance(error, Unreachable):
        return UNREACHABLE
    return BadInput.code if isinstance(error, Refused) else CommandFailure.code


def with_versions(error: "ClientError") -> "ClientError":
    """Return an error with the versions of server and client if an answer lacks something."""
    from pilotage.client import BadAnswer, ClientError

    if isinstance(error, BadAnswer) and not error.names_versions:
        with suppress(CommandFailure, ClientError), connect() as client:
            return client.with_versions(error)
    return error
