"""The jobs that a pilot got, with all that it needs to know about them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.work import File, Job, Replica, Task
from pilotage.store.matching.match_requests import ClaimResult


@dataclass(frozen=True, slots=True)
class Matched:
    """Jobs that a pilot got, with the federation and queue at that time.

    If it got none, ``unfit_jobs`` counts jobs waiting at its queue that it could never run.
    """

    federation: Federation
    queue: Queue | None
    jobs: tuple[Job, ...]
    tasks: tuple[Task, ...]
    files: tuple[File, ...]
    replicas: tuple[Replica, ...] = ()
    unfit_jobs: int = 0


def matched(federation: Federation, queue: Queue | None, parts: Sequence[ClaimResult]) -> Matched:
    """Combine the parts of a pilot's match."""
    return Matched(
        federation=federation,
        queue=queue,
        jobs=tuple(job for part in parts for job in part.jobs),
        tasks=tuple({task.id: task for part in parts for task in part.tasks}.values()),
        files=tuple({file.name: file for part in parts for file in part.files}.values()),
        replicas=tuple(dict.fromkeys(replica for part in parts for replica in part.replicas)),
    )
