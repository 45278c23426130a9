"""Attempts that failed at their pilots, as the guards see them (F2, F3)."""

from functools import cached_property

from pilotage.model.documents.world import Report, World
from pilotage.model.records.failure_kinds import FailureKind
from pilotage.model.records.failures import Failure, ending_of
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job, Pilot
from pilotage.model.rules.retry_causes import exceeded_by
from pilotage.model.values.error_lines import last_line

COMPLETE_CONTAINMENT = frozenset({"bubblewrap", "namespaces", "landlock"})
"""Ways that keep files and signals away from payloads. Any other keeps away less, or nothing."""


class FailedAttempts:
    """Makes the failures of one world."""

    def __init__(self, world: World) -> None:
        self._world, self._time = world, world.time
        self._tasks = {task.id: task for task in world.tasks}

    @cached_property
    def _running(self) -> dict[str, int]:
        """Running pilots by queue."""
        return {report.queue: report.running_pilots for report in self._world.queue_reports}

    def of_report(self, job: Job, pilot: Pilot, report: Report, grows: bool = False) -> Failure:
        """Return the failure that a pilot reports; ``grows`` as in ``FailedAttempt``."""
        lasted, code = report.wall_seconds, report.exit_code
        return self._failure(job, pilot, report.error, report.kind, lasted, code, grows)

    def lost(self, job: Job, pilot: Pilot, error: str, grows: bool = False) -> Failure:
        """Return the failure of an attempt that was lost with its pilot, or by it.

        The payload may have killed a pilot that does not contain payloads.
        """
        kind: FailureKind = "pilot" if pilot.containment in COMPLETE_CONTAINMENT else "lost"
        if exceeded := exceeded_by(error):
            kind = exceeded
        lasted = max(0.0, self._time - job.since) if job.state is JobState.RUNNING else 0.0
        return self._failure(job, pilot, error, kind, lasted, None, grows)

    def by_storages(self, job: Job, error: str) -> Failure:
        """Return the failure of an attempt that storages failed, before or after its pilot had it (F4)."""
        return self._failure(job, None, error, "storage", 0.0, None, grows=False)

    def _failure(
        self,
        job: Job,
        pilot: Pilot | None,
        error: str,
        kind: FailureKind,
        lasted: float,
        exit_code: int | None,
        grows: bool,
    ) -> Failure:
        owner = self._tasks[job.task].owner
        return Failure(
            job=job.id,
            attempt=job.attempt,
            task=job.task,
            owner=owner.name,
            vo=owner.vo,
            queue=job.queue,
            node=pilot.place if pilot else "",
            pilot=pilot.id if pilot else 0,
            pilots=self._running.get(job.queue, 0) if pilot else 0,
            time=self._time,
            lasted=lasted,
            exit_code=exit_code,
            ending=ending_of(error),
            example=last_line(error),
            kind=kind,
            grows=grows,
        )
