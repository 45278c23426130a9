"""Errors of calls. The docstring is the message."""


class PilotGone(Exception):
    """The server gave up this pilot. It must end its payloads: their jobs belong to others now."""


class PilotRefused(Exception):
    """This pilot may not run at its queue."""


class AlreadyEnrolled(Exception):
    """This pilot has enrolled already."""


class NoSuchTask(Exception):
    """There is no such task."""


class NotThere(LookupError):
    """A person names something that does not exist; the message has a command that lists what exists."""


class LeaseTooShort(ValueError):
    """Pilots may run on for longer than this lease."""


class KeyReused(Exception):
    """This Idempotency-Key was sent before with other tasks: make a new one for each submission."""


class NotNow(ValueError):
    """A request does not fit the state of a task or job; the message has a request that would."""
