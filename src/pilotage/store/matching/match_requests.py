"""Requests of pilots for jobs, what they rest on, and what was given."""

from dataclasses import dataclass

from pilotage.model.records.work import File, Job, Replica, Task


@dataclass(frozen=True, slots=True)
class Standing:
    """The task queues of a queue: rows of requirements, priority and jobs.

    ``number`` is that of the last activation there, ``version`` that of the federation.
    """

    number: int
    version: int
    levels: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The first jobs of task queues for a pilot: requirements, priority and number of jobs of each.

    They rest on a :class:`Standing`, and on whether the pilot had been given jobs before (``used``). What the
    pilot tells of its ``containment`` and ``node`` is noted with them. Jobs of ``closed`` tasks are passed
    over (F2).
    """

    pilot: int
    queue: str
    heads: tuple[tuple[str, int, int], ...]
    number: int
    version: int
    used: bool
    containment: str
    node: str
    time: float
    closed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The jobs that a pilot was given, as they are now, with their tasks, inputs and where these lie.

    ``alive`` says whether the pilot runs, ``good`` whether all that the request rests on still holds; where
    it does not, nothing was given.
    """

    alive: bool
    good: bool
    jobs: tuple[Job, ...] = ()
    tasks: tuple[Task, ...] = ()
    files: tuple[File, ...] = ()
    replicas: tuple[Replica, ...] = ()
