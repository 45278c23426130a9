"""How a command ends: 0 well, and otherwise with one of these and one sentence on standard error."""


class Failure(Exception):
    """What was asked for is not there, or failed."""

    code = 1


class BadInput(Failure):
    """What was typed or written cannot be taken."""

    code = 2


class Unreachable(Failure):
    """The server does not answer."""

    code = 3
