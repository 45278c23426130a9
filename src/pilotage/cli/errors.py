"""Ends of commands: 0 well, otherwise one of these and one sentence on standard error."""


class CommandFailure(Exception):
    """Something asked for is not there, or failed."""

    code = 1


class BadInput(CommandFailure):
    """Something typed or written cannot be taken."""

    code = 2


class Unreachable(CommandFailure):
    """The server does not answer."""

    code = 3
