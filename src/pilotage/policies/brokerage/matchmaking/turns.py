"""The turns of a cycle: groups of jobs by priority, also groups that wait for the next cycle (M7)."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import NamedTuple

from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job
from pilotage.policies.brokerage.engine.job_groups import Group, groups_of
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.spec_table import SpecTable


class GroupTurn(NamedTuple):
    """The turn of a group. Its jobs are matched if ``is_here``. ``waiting`` counts similar jobs that are
    not."""

    group: Group
    is_here: bool
    waiting: int


def turns_of(world: World, queues: QueueColumns, specs: SpecTable, until: float) -> list[GroupTurn]:
    """Return groups by priority, then age. At equal priority, groups that wait for the cycle at ``until``
    come last.

    A pass reads only some jobs of each task. The task's other jobs wait as well.
    """
    groups = groups_of(world, queues, specs=specs)
    # Skip jobs that wait for longer than until the next cycle, for example for a storage: they take no place
    # now.
    ready = tuple(
        replace(job, state=JobState.DEFINED) for job in world.ahead if (job.wake_at or -inf) <= until
    )
    ahead = groups_of(replace(world, jobs=ready), queues, specs=specs) if ready else []
    unread = _unread(world)
    turns = [GroupTurn(group, True, unread.pop((group.task.id, JobState.DEFINED), 0)) for group in groups]
    turns += [
        GroupTurn(group, False, len(group.jobs) + unread.pop((group.task.id, JobState.PENDING), 0))
        for group in ahead
    ]
    return sorted(turns, key=lambda turn: (-turn.group.priority, not turn.is_here, turn.group.jobs[0]))


def _unread(world: World) -> dict[tuple[int, JobState], int]:
    """Return the number of jobs that this world does not contain, by task and state; empty if it has no
    counts."""
    read: defaultdict[JobState, Counter[int]] = defaultdict(Counter)
    for state, jobs in ((JobState.DEFINED, world.jobs), (JobState.PENDING, world.ahead)):
        read[state].update(_tasks_in(jobs, state))
    return {
        (row.task, row.state): row.jobs - read[row.state][row.task]
        for row in world.task_counts
        if row.state in read and row.jobs > read[row.state][row.task]
    }


def _tasks_in(jobs: Iterable[Job], state: JobState) -> Iterable[int]:
    return (job.task for job in jobs if job.state is state)
