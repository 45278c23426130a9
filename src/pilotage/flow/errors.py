"""Errors of calls. The docstring is the message."""


class PilotGone(Exception):
    """The server gave up this pilot. Whatever it still runs must end: its jobs belong to others now."""


class PilotRefused(Exception):
    """This pilot may not run at its queue."""


class AlreadyEnrolled(Exception):
    """This pilot has enrolled already."""


class NoSuchTask(Exception):
    """There is no such task."""


class NotThere(LookupError):
    """What a person names does not exist; the message says how to find what does."""


class LeaseTooShort(ValueError):
    """Pilots may run on for longer than this lease."""


class KeyReused(Exception):
    """This Idempotency-Key was sent before with other tasks: make a new one for each submission."""


class NotNow(ValueError):
    """What a person asks for does not fit how a task or job stands; the message says what would."""
