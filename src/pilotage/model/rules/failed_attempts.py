"""Attempts that failed at their pilots, as the guards see them (F2, F3)."""

from pilotage.model.documents.world import Report, World
from pilotage.model.records.failures import Blame, Failure, ending_of
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job, Pilot
from pilotage.model.values.containment import COMPLETE


class FailedAttempts:
    """Makes the failures of one world."""

    def __init__(self, world: World) -> None:
        self._time = world.time
        self._tasks = {task.id: task for task in world.tasks}
        self._running = {one.queue: one.running_pilots for one in world.queue_reports}

    def told(self, job: Job, pilot: Pilot, report: Report) -> tuple[Failure, ...]:
        """Return the failure that a pilot reports; nothing for a lost input, which is nobody's fault."""
        if report.lost_inputs:
            return ()
        blame: Blame = "storage" if report.storage_fault else report.blame
        return (self._made(job, pilot, report.error, blame, report.wall_seconds, report.exit_code),)

    def lost(self, job: Job, pilot: Pilot, error: str) -> tuple[Failure, ...]:
        """Return the failure of an attempt that was lost with its pilot, or by it.

        Nothing if the pilot does not contain payloads: its payload may have killed it.
        """
        if pilot.containment not in COMPLETE:
            return ()
        lasted = max(0.0, self._time - job.since) if job.state is JobState.RUNNING else 0.0
        return (self._made(job, pilot, error, "pilot", lasted, None),)

    def _made(
        self, job: Job, pilot: Pilot, error: str, blame: Blame, lasted: float, exit_code: int | None
    ) -> Failure:
        owner = self._tasks[job.task].owner
        return Failure(
            job=job.id,
            attempt=job.attempt,
            task=job.task,
            owner=owner.name,
            vo=owner.vo,
            queue=job.queue,
            node=pilot.place,
            pilot=pilot.id,
            pilots=self._running.get(job.queue, 0),
            time=self._time,
            lasted=lasted,
            exit_code=exit_code,
            ending=ending_of(error),
            blame=blame,
        )
