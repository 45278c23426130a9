"""One attempt as a pilot holds it: its payload, its lease, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .attempt import Attempt
from .containers import ContainerRuntime
from .wire import MatchAnswer, Point, Work


class LeaseTimes(NamedTuple):
    """The s that an attempt may run without news from the server: at ``first``, and once that knows of it."""

    full: float
    first: float


def lease_of(work: Work, answer: MatchAnswer) -> LeaseTimes:
    """The lease of work; an older server says one for all in its answer."""
    full = work.lease or answer.lease
    return LeaseTimes(full, min(full, work.first_lease or answer.first_lease or full))


class RunningPayload(Protocol):
    """A payload that is under way, here or elsewhere."""

    def renew(self, lease_end: float) -> None:
        """Let it live until then."""

    def stop(self, reason: str) -> None:
        """Have it end."""

    def points_so_far(self) -> tuple[Point, ...]:
        """Return its time line as of the last time that this was asked; empty where nobody tells it."""


@dataclass(eq=False)
class Held:
    """An attempt until the server acknowledges its end, or wants it stopped.

    ``given`` is when the call began that brought it; ``heard`` once a report of it was answered: until then
    only its first lease holds, for the server may not know that it is here. ``stored`` once bytes may lie
    in its scratch folder; ``done`` once it was reported done, and ``end_heard`` once the server may have
    heard of its end.
    """

    attempt: Attempt
    given: float
    lease: LeaseTimes
    gpus: tuple[str, ...] = ()
    runtime: ContainerRuntime | None = None
    payload: RunningPayload | None = None
    stopping: str = ""
    dropped: bool = False
    stored: bool = False
    done: bool = False
    heard: bool = False
    end_heard: bool = False

    @property
    def lease_now(self) -> float:
        """The s that it may run without news from the server."""
        return self.lease.full if self.heard else self.lease.first
