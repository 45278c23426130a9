"""How commands end: 0 after success, otherwise one of these codes and one sentence on standard error."""


class CommandFailure(Exception):
    """A requested object does not exist, or an action failed."""

    code = 1


class BadInput(CommandFailure):
    """Typed or written input cannot be accepted."""

    code = 2


class Unreachable(CommandFailure):
    """The server does not answer."""

    code = 3
