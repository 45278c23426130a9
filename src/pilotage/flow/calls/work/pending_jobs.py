"""What pending jobs lack: by the first obstacle of their task's last decision, and who can mend it."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from pilotage.explain.analysis import Obstacle, first_obstacle
from pilotage.flow.runtime import Runtime

MOST_EXPLAINED = 100
"""Most tasks whose last decision is read, those with most pending jobs."""


class Lack(NamedTuple):
    """An obstacle by number and name, and who can mend it: user, operator or wait."""

    rule: str
    mend: str


NO_ROOM = Lack("room at the queues that fit", "wait")
OTHERS = Lack("other", "")
"""The lack of tasks that are not explained."""


def lacks(runtime: Runtime) -> Mapping[Lack, int]:
    """Return the numbers of pending jobs by what they lack."""
    found = Counter[Lack]()
    pending = sorted(runtime.store.metrics_queries.pending(), key=lambda one: -one.jobs)
    for rank, one in enumerate(pending):
        found[_lack(runtime, one.task) if rank < MOST_EXPLAINED else OTHERS] += one.jobs
    return found


def obstacle_of(runtime: Runtime, task: int) -> Obstacle | None:
    """Return the first obstacle of a task's last decision; None if its jobs only lack room."""
    choices = runtime.store.queries.task_choices(task, 1)
    return first_obstacle(choices[0] if choices else None)


def _lack(runtime: Runtime, task: int) -> Lack:
    obstacle = obstacle_of(runtime, task)
    return Lack(f"{obstacle.rule} {obstacle.name}".strip(), obstacle.mend) if obstacle else NO_ROOM
