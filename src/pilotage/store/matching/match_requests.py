"""Requests of pilots for jobs: the versions that they were decided on, and the answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pilotage.model.records.matching import ClaimRequest
from pilotage.model.records.work import File, Job, Replica, Task


@dataclass(frozen=True, slots=True)
class Standing:
    """The task queues of a queue: rows of requirements, priority and jobs.

    ``number`` counts activations of jobs there, ``version`` the versions of the federation.
    """

    number: int
    version: int
    levels: tuple[tuple[str, int, int], ...]


class Basis(NamedTuple):
    """The state that a request was decided on. It holds if no job has come to the pilot's queue since.

    ``number`` is the last activation there, ``version`` the federation's version. ``used`` pilots had jobs
    before.
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

    ``alive`` means that the pilot runs, ``good`` that the request's basis still holds. A pilot gets jobs only
    if both are true.
    """

    alive: bool
    good: bool
    jobs: tuple[Job, ...] = ()
    tasks: tuple[Task, ...] = ()
    files: tuple[File, ...] = ()
    replicas: tuple[Replica, ...] = ()
