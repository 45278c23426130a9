"""Running pilots whose batch job has ended, and that may still have jobs."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from pilotage.model.records.states import AT_A_PILOT, PilotState
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import raw_rows
from pilotage.store.tables.jobs import jobs
from pilotage.store.tables.pilots import pilots

_p, _j = pilots.c, jobs.c
_ENDED = (
    select(_p.id, _p.queue, _p.ended_there_since, _p.end_doubt, _p.error, func.count(_j.id))
    .select_from(pilots)
    .join(jobs, (_j.pilot == _p.id) & is_state(jobs, *AT_A_PILOT))
    .where(is_state(pilots, PilotState.RUNNING), _p.ended_there_since.is_not(None))
    .group_by(_p.id)
    .order_by(_p.ended_there_since, _p.id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPilot:
    """A pilot with ``jobs``, and the times in s since 1970 when its batch job ended and when that is sure."""

    pilot: int
    queue: str
    jobs: int
    ended: float
    sure_at: float
    reason: str


def ended_pilots(connection: Connection) -> list[EndedPilot]:
    """Return such pilots; the one that ended first comes first."""
    return [
        EndedPilot(pilot=pilot, queue=queue, jobs=jobs, ended=ended, sure_at=ended + doubt, reason=reason)
        for pilot, queue, ended, doubt, reason, jobs in raw_rows(connection, _ENDED)
    ]
