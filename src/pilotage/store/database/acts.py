"""What a person or program does now: its record enters the first transaction that its changes commit.

The edge of the API opens an act for each request, a command for itself. Loops have none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class CurrentAct(Protocol):
    """An act that leaves one record."""

    @property
    def is_due(self) -> bool:
        """Whether the next transaction has to write its record."""

    def write(self, connection: Connection) -> None:
        """Write its record."""

    def settle(self) -> None:
        """Remember that its record is committed."""

    def note(self, **facts: Any) -> None:
        """Add what is known only here; see ``store/audit/acts.py``."""

    def part(self, **facts: Any) -> "CurrentAct":
        """Return an act for a part of this one, which leaves a record itself."""


ACT: ContextVar[CurrentAct | None] = ContextVar("ACT", default=None)


@contextmanager
def acting(act: CurrentAct) -> Iterator[None]:
    """Let an act be the current one within a block."""
    token = ACT.set(act)
    try:
        yield
    finally:
        ACT.reset(token)


def note_act(**facts: Any) -> None:
    """Add facts to the current act, if there is one."""
    if (act := ACT.get()) is not None:
        act.note(**facts)


@contextmanager
def part_of_act(**facts: Any) -> Iterator[None]:
    """Let what the block changes be a part of the current act, with a record for itself."""
    act = ACT.get()
    with acting(act.part(**facts)) if act is not None else nullcontext():
        yield


def due_act() -> CurrentAct | None:
    """Return the current act if the next transaction has to write its record."""
    act = ACT.get()
    return act if act is not None and act.is_due else None


def with_record(work: Callable[[Connection], T], act: CurrentAct | None) -> Callable[[Connection], T]:
    """Return work that also writes an act's record, if there is one and the work returns something true.

    Other work may have changed nothing: the edge writes the record if the request succeeds all the same.
    """
    if act is None:
        return work

    def recording(connection: Connection) -> T:
        if result := work(connection):
            act.write(connection)
        return result

    return recording
