"""What pending and throttled jobs lack: their task's first obstacle, or a quota, and who can mend it."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from pilotage.explain.analysis import first_obstacle
from pilotage.flow.runtime import Runtime
from pilotage.model.rules.job_rooms import JobQuota, JobRooms
from pilotage.model.values.identity import Identity
from pilotage.store.jobs.world import throttled_jobs
from pilotage.store.tasks.world import unsplit_tasks

MOST_EXPLAINED = 100
"""Most tasks to read the last decision of, with most pending jobs first."""


class Lack(NamedTuple):
    """An obstacle by number and name, and who can mend it: user, operator or wait."""

    rule: str
    mend: str


NO_ROOM = Lack("room at the queues that fit", "wait")
OTHERS = Lack("other", "")
"""The lack of tasks that are not explained."""


def lacks(runtime: Runtime) -> Mapping[Lack, int]:
    """Return the numbers of pending jobs by obstacle."""
    numbers = Counter[Lack]()
    pending = sorted(runtime.store.metrics_queries.pending(), key=lambda task: -task.jobs)
    for rank, task in enumerate(pending):
        numbers[_lack(runtime, task.task) if rank < MOST_EXPLAINED else OTHERS] += task.jobs
    return numbers


def _lack(runtime: Runtime, task: int) -> Lack:
    choices = runtime.store.queries.task_choices(task, 1)
    obstacle = first_obstacle(choices[0] if choices else None)
    return Lack(f"{obstacle.rule} {obstacle.name}".strip(), obstacle.mend) if obstacle else NO_ROOM


def full_quotas(runtime: Runtime, owner: str, vo: str) -> list[tuple[JobQuota, int]]:
    """Return the full quotas that throttle an owner's jobs, with the live jobs of each."""
    world = runtime.world(unsplit_tasks(), throttled_jobs())
    rooms = JobRooms(world.federation.quotas, world.live_jobs)
    full = {
        quota: have
        for jobs in world.live_jobs
        if (jobs.owner, jobs.vo) == (owner, vo) and jobs.throttled
        for quota, have in rooms.full(Identity(name=owner, vo=vo, group=jobs.group))
    }
    return list(full.items())
