"""Unfinished work of owners and VOs, as quotas count it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.documents.decision import WorkLimit
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import ENDED
from pilotage.store.database.columns import has_state
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.tables.tasks import is_live, tasks

_t = tasks.c
LIVE_WORK = (
    select(_t.owner, func.count(), func.sum(_t.planned_jobs), func.sum(_t.input_files))
    .where(is_live, _t.vo == bindparam("vo"))
    .group_by(_t.owner)
)
"""A VO's unfinished tasks with their jobs and files, by owner."""
_OF_ENDED = select(_t.planned_jobs, _t.input_files).where(
    among(_t.id, "tasks"), has_state(tasks, *ENDED["task"])
)


def live_work(connection: Connection, vo: str) -> dict[str, LiveWork]:
    """Return the unfinished work of a VO's tasks, by owner."""
    rows = connection.execute(LIVE_WORK, {"vo": vo})
    return {
        owner: LiveWork(tasks=live, jobs=int(jobs), files=int(files)) for owner, live, jobs, files in rows
    }


def planned_jobs(connection: Connection, vo: str) -> Counter[str]:
    """Return the jobs of a VO's unfinished tasks, made or not, by owner. This reads no job."""
    return Counter({owner: int(jobs) for owner, _, jobs, _ in raw_rows(connection, LIVE_WORK, vo=vo)})


def has_room(connection: Connection, limits: Sequence[WorkLimit], added: Iterable[LiveWork]) -> bool:
    """Return whether more work stays within all limits. The caller is alone, so the answer stays true."""
    new = LiveWork.total(added)
    live = {vo: live_work(connection, vo) for vo in {limit.vo for limit in limits}}
    for limit in limits:
        by_owner = live[limit.vo]
        found = by_owner.values() if limit.owner is None else [by_owner.get(limit.owner, LiveWork())]
        if not LiveWork.total((*found, new)).is_within(limit.most):
            return False
    return True


def of_ended(connection: Connection, ids: Iterable[int]) -> list[LiveWork]:
    """Return the work of those tasks of these that have ended."""
    rows = connection.execute(_OF_ENDED, {"tasks": sorted(ids)})
    return [LiveWork(tasks=1, jobs=jobs, files=files) for jobs, files in rows]
