"""Jobs with an input that no storage has: no queue could ever run them."""

from pilotage.model.documents.decision import Decision, Value
from pilotage.model.documents.moves import JobMoves
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job


def fail(world: World) -> Decision:
    """Fail the jobs that wait for a queue and read a file without any replica. The error names the file.

    They fail for good, even with attempts left. A replica is forgotten only if a pilot found the file missing
    or altered, or a mover found it altered, and Pilotage cannot restore it.
    """
    moves = JobMoves()
    for job, name in _without_input(world):
        error = f"input {name} is gone: no storage has it; restore it, then retry the job"
        if job.error:
            error = f"{error}; its last attempt: {job.error}"
        changes: dict[str, Value] = {"error": error, "ended": world.time}
        moves.add(job, job.state, JobState.FAILED, cause="an input is gone", changes=changes)
    return Decision(step="lost", time=world.time, seed=world.seed, changes=moves.gathered())


def any_lost(world: World) -> bool:
    """Return whether ``fail`` would fail a job."""
    return bool(_without_input(world))


def _without_input(world: World) -> list[tuple[Job, str]]:
    files = {replica.file for replica in world.replicas}
    # Most jobs read no files: skip these first.
    waiting = (job for job in world.jobs if job.inputs and job.state in (JobState.DEFINED, JobState.PENDING))
    missing = ((job, next((name for name in job.inputs if name not in files), "")) for job in waiting)
    return [(job, name) for job, name in missing if name]
