"""Retry for a person the jobs of a task that ended badly."""

from collections import Counter

from pilotage.flow.errors import NoSuchTask, NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Committed, Move
from pilotage.model.documents.decision_parts import parts
from pilotage.model.documents.world import World
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import State, TaskState
from pilotage.model.records.work import Task
from pilotage.store.worlds.retries import jobs_to_retry
from pilotage.store.worlds.work_of_tasks import one_task
from pilotage.tasks import retrying
from pilotage.tasks.quotas import Quota

from .steering import Moved, jobs_moved


def retry(runtime: Runtime, task: int, actor: str, job: int | None = None, dry_run: bool = False) -> Moved:
    """Retry all jobs of a task that ended badly, or one of them; with ``dry_run`` only count them.

    Returns them by the state that they had ended in. Raises :class:`NoSuchTask`, and :class:`NotNow` with the
    reason and what would work instead.
    """
    moved: Counter[State] = Counter()
    while True:
        world = runtime.world(one_task(task), "task_counts", jobs_to_retry)
        if not world.tasks:
            raise NoSuchTask(task)
        if not moved:
            _check(runtime, world, job)
        decision = retrying.retry(world, job)
        if dry_run:
            ids = tuple(change.ids if isinstance(change, Move) else () for change in decision.changes)
            return jobs_moved(decision, Committed(accepted=ids, created=(), handed_back=0))
        handed_back = 0
        for part in parts(decision):
            committed = runtime.store.commit(part, actor)
            moved += jobs_moved(part, committed)
            handed_back += committed.handed_back
        if not handed_back:
            return moved


def _check(runtime: Runtime, world: World, job: int | None) -> None:
    """Raise :class:`NotNow` where there is nothing to retry, or a quota would be passed."""
    (task,) = world.tasks
    found = [one for one in retrying.retryable(task, world.jobs) if job in (None, one.id)]
    if not found and not (task.state in retrying.ENDED and world.task_counts):
        raise NotNow(_nothing(task, world, job))
    if task.state in retrying.ENDED:
        live = runtime.store.queries.live_work(task.owner.vo)
        mine = live.get(task.owner.name, LiveWork())
        quota = Quota(world.federation.quotas, task.owner, mine, LiveWork.total(live.values()))
        if faults := quota.take(task.spec):
            raise NotNow("; ".join(text for _, text in faults))


def _nothing(task: Task, world: World, job: int | None) -> str:
    if job is not None:
        return (
            f"job {job} has not ended badly, so there is nothing to retry: "
            f"pilotage explain job:{job} says how it stands"
        )
    if not world.task_counts:
        return f"task {task.id} has no jobs ({task.error or task.state}): correct it and submit it again"
    if task.state is TaskState.FINISHED:
        return f"task {task.id} finished, and no job of it failed: submit it again to run it once more"
    return f"task {task.id} is {task.state}, and no job of it has failed for good: wait for it, or cancel it"
