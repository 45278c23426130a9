"""An attempt that a pilot holds, and the pilot as its attempts see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .payload import payload_secrets
from .payload.attempt import Attempt
from .payload.containers import ContainerRuntime
from .proof import Containment
from .wire import AttemptLogs, MatchAnswer, Point, Report, Work


class LeaseTimes(NamedTuple):
    """Seconds that an attempt may run without an answer: at ``first``, and after the server has heard of
    it."""

    full: float
    first: float


def lease_of(work: Work, answer: MatchAnswer) -> LeaseTimes:
    """Return the lease of the work. An older server names one lease for all in its answer."""
    full = work.lease or answer.lease
    return LeaseTimes(full, min(full, work.first_lease or answer.first_lease or full))


class RunningPayload(Protocol):
    """A payload that is running, here or elsewhere."""

    def renew(self, lease_end: float) -> None:
        """Let the payload live until then."""

    def stop(self, reason: str) -> None:
        """Stop the payload."""

    def points_so_far(self) -> tuple[Point, ...]:
        """Return the time line as of the previous call; empty if there is none."""


@dataclass(eq=False)
class PilotJob:
    """An attempt, until the server acknowledges its end or wants it stopped.

    ``matched_at`` is when the call began that brought the attempt. ``is_confirmed`` is true once the server
    has answered a report of it; until then only the first lease counts, because the server may not know that
    the pilot has it. ``stored`` is true once its scratch folder may hold bytes, ``done`` once it was reported
    done, and ``end_heard`` once the server may have received its end. ``leaving`` is true once its results go
    into the spool, and ``unsent`` are its outputs that no storage has by then. ``report`` and ``logs``
    describe its end.
    """

    attempt: Attempt
    matched_at: float
    lease: LeaseTimes
    gpus: tuple[str, ...] = ()
    runtime: ContainerRuntime | None = None
    payload: RunningPayload | None = None
    unsent: tuple[str, ...] = ()
    report: Report | None = None
    logs: AttemptLogs | None = None
    stopping: str = ""
    leaving: bool = False
    dropped: bool = False
    stored: bool = False
    done: bool = False
    is_confirmed: bool = False
    end_heard: bool = False

    @property
    def hidden(self) -> tuple[bytes, ...]:
        """Return the texts that no log of the attempt shows."""
        return payload_secrets.texts(self.attempt.work.secrets)

    @property
    def lease_now(self) -> float:
        """Return the seconds that the attempt may run without an answer from the server."""
        return self.lease.full if self.is_confirmed else self.lease.first


class PilotHost(Protocol):
    """The pilot, as seen by its jobs."""

    ending: str
    """Why the pilot ends; empty until then."""
    containment: Containment
    """How payloads are contained."""
    runtimes: tuple[ContainerRuntime, ...]
    """The programs that run payloads in containers."""

    contact: float
    """When the last answered call began that listed all attempts."""

    def say(self, report: Report, logs: AttemptLogs | None = None) -> None:
        """Queue a report, with the logs of an attempt that has ended."""

    def wake(self) -> None:
        """Let the pilot check its jobs again."""
