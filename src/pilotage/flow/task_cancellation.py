"""Cancel a task and unneeded downloads: for a person, or after its submitter fell silent."""

from collections.abc import Collection, Iterable
from functools import partial

from pilotage.flow.runtime import Runtime
from pilotage.flow.task_changes import change_task
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.work import Job
from pilotage.model.values.step_names import STAGE
from pilotage.policies.pilots import withdrawal
from pilotage.policies.staging import unwanted
from pilotage.policies.tasks import cancellation
from pilotage.store.tasks.world import work_to_come
from pilotage.store.transfers.staging import downloads_of


def cancel(runtime: Runtime, task: int, reason: str, actor: str, job: int | None = None) -> int:
    """Cancel a task, its live jobs and their transfers, or one ``job`` of it.

    Returns how many records changed.

    This also cancels downloads that wait for a slot, unless jobs of other tasks need them as well (D2).
    Pilots that run its jobs hear of it at their next report. Pilots that wait for it alone are ended in the
    batch system. Raises ``NoSuchTask``.
    """
    decide = partial(cancellation.cancel, task_id=task, reason=reason, only=job)
    done = change_task(runtime, task, actor, decide)
    gone = [gone_job for gone_job in done.jobs.values() if job in (None, gone_job.id)]
    return done.records + let_go(runtime, gone, actor)


def let_go(runtime: Runtime, gone: Iterable[Job], actor: str) -> int:
    """Let go of downloads and pilots that only gone jobs needed. Return how many downloads."""
    jobs = list(gone)
    _withdraw(runtime, frozenset((job.queue, job.requirements) for job in jobs if job.queue), actor)
    return give_up_downloads(runtime, {name for job in jobs for name in job.inputs})


def _withdraw(runtime: Runtime, lines: frozenset[tuple[str, str]], actor: str) -> None:
    """End waiting pilots that were made for these task queues and that no other work could use."""
    if not lines:
        return
    world = runtime.world("pilots", work_to_come, "borrowable_lines")
    end_pilots(runtime, world, withdrawal.withdraw(world, lines), actor)


def end_pilots(runtime: Runtime, world: World, decision: Decision, actor: str) -> int:
    """Commit the end of pilots, and end them in their batch systems. Return how many ended."""
    committed = runtime.store.commit(decision, actor)
    ended = {id_ for ids in committed.accepted for id_ in ids}
    for queue in world.federation.queues:
        # A pilot that is being submitted ends as soon as its reference is known.
        queue_pilots = [
            pilot
            for pilot in world.pilots
            if pilot.id in ended and pilot.queue == queue.name and pilot.reference
        ]
        if queue_pilots and queue.computing_element:
            runtime.elements.cancel(queue, queue_pilots)
    return len(ended)


def give_up_downloads(runtime: Runtime, files: Collection[str]) -> int:
    """Cancel queued downloads of these files if no job waits for them.

    Return how many. A download that has just started continues.
    """
    if not files:
        return 0
    world = runtime.world(downloads_of(files))
    committed = runtime.store.commit(unwanted.cancel_unawaited(world), STAGE)
    return sum(len(ids) for ids in committed.accepted)
