"""The knowledge that pilots' requests rest on, and the answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pilotage.model.records.matching import ClaimRequest
from pilotage.model.records.work import File, Job, Replica, Task


@dataclass(frozen=True, slots=True)
class Standing:
    """The task queues of a queue: rows of requirements, priority and jobs.

    ``number`` is the last activation there, ``version`` the federation's.
    """

    number: int
    version: int
    levels: tuple[tuple[str, int, int], ...]


class Basis(NamedTuple):
    """What a request rests on: while it holds, nothing came to the pilot's queue since task queues were read.

    ``number`` is that of the last activation there, ``version`` that of the federation, and ``used`` whether
    the pilot had been given jobs before.
    """

    number: int
    version: int
    used: bool


class AskedClaim(NamedTuple):
    """A claim at a time, in s since 1970; ``entry`` makes the line in a job's history from its attempt."""

    request: ClaimRequest
    basis: Basis
    time: float
    entry: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The jobs that a pilot got, in their current state, with their tasks, inputs and the inputs' storages.

    ``alive`` says whether the pilot runs, ``good`` whether the request's basis still holds. If not, it got
    nothing.
    """

    alive: bool
    good: bool
    jobs: tuple[Job, ...] = ()
    tasks: tuple[Task, ...] = ()
    files: tuple[File, ...] = ()
    replicas: tuple[Replica, ...] = ()
