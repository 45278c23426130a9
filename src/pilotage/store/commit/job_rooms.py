"""Enforce quotas of live jobs in a commit: concurrent decisions do not see each other's jobs (rules T)."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, select

from pilotage.model.documents.decision import Change, Move
from pilotage.model.records.states import ENDED, LIVE, LIVE_TASKS
from pilotage.model.records.work import NewJob
from pilotage.model.rules.job_rooms import JobRooms
from pilotage.model.values.identity import Identity
from pilotage.store.commit.working_set import ID, TASK, Record, WorkingSet
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.world import by_owner
from pilotage.store.tasks.table import planned_jobs, tasks

_t = tasks.c
_OWNERS = select(_t.id, _t.vo, _t.group, _t.owner, _t.state, _t.planned_jobs).where(among(_t.id, "tasks"))


class CommitJobRooms:
    """The room for live jobs that a decision's moves may take, one after the other.

    The caller is the only writer, so the counts stay right. It reads nothing for moves without
    ``job_quotas``, and no counts of jobs if all unfinished tasks fit the quotas.
    """

    def __init__(self, connection: Connection, changes: Sequence[Change], records: WorkingSet) -> None:
        moves = [change for change in changes if isinstance(change, Move) and change.job_quotas]
        self._owners: dict[int, Identity] = {}
        self._rooms: JobRooms | None = None
        if not moves:
            return
        named = {
            _task(move, row)
            for move in moves
            for row in records.standing(move.kind, (*LIVE[move.kind], *ENDED[move.kind]), move.ids, None)
        }
        planned: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for id_, vo, group, owner, state, jobs in raw_rows(connection, _OWNERS, tasks=sorted(named)):
            self._owners[id_] = Identity(name=owner, vo=vo, group=group)
            # A person may resume an ended task.
            planned[vo][owner] += 0 if state in LIVE_TASKS else int(jobs)
        quotas = next(move.job_quotas for move in moves if move.job_quotas)
        for vo, ended_work in planned.items():
            if quotas.may_throttle((planned_jobs(connection, vo) + ended_work).values()):
                self._rooms = JobRooms(quotas, by_owner(connection)[0])
                return

    def fitting(self, move: Move, rows: list[Record]) -> list[Record]:
        """Return the records with live jobs that fit, and take their room."""
        if self._rooms is None or move.job_quotas is None:
            return rows
        fits: list[Record] = []
        for row in rows:
            owner, jobs = self._owners[_task(move, row)], _live_jobs(move, row)
            if jobs <= self._rooms.room(owner):
                self._rooms.take(owner, jobs)
                fits.append(row)
        return fits


def _task(move: Move, row: Record) -> int:
    return int(row[ID] if move.kind == "task" else row[TASK])


def _live_jobs(move: Move, row: Record) -> int:
    """Return how many jobs become live with a record: itself, or its new jobs."""
    if move.kind == "job":
        return 1
    new = move.creates.get(row[ID], ())
    return sum(1 for record in new if isinstance(record, NewJob) and not record.throttled)
