"""What a log line concerns: the request, person, loop, task, job, queue or pilot, where it is known.

Whoever begins such work binds it once; each line below it carries it. A call of the log may name more with
``extra={"task": 12}``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

FIELDS = ("request", "person", "loop", "task", "job", "transfer", "queue", "site", "storage", "pilot")
"""The names that log lines carry, in this order."""

_bound: ContextVar[dict[str, str | int] | None] = ContextVar("pilotage_log", default=None)


@contextmanager
def bound(**fields: str | int) -> Iterator[None]:
    """Let the lines of a block carry these fields, also those of threads that get its context."""
    before = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(before)


def note(**fields: str | int) -> None:
    """Add fields to the innermost block: what became known meanwhile. Outside of blocks it does nothing."""
    known = _bound.get()
    if known is not None:
        known.update(fields)


def current() -> Mapping[str, str | int]:
    """Return the fields of the innermost block."""
    return _bound.get() or {}
