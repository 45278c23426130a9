"""What a store needs once after it went back to an earlier time.

Its servers had gone on since then. They gave out numbers and attempts that this store does not know, and
their pilots may still run.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from pilotage.model.records.states import LIVE_JOBS, LIVE_PILOTS, STATES, JobState
from pilotage.model.rules.timeouts import longest_heartbeat
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_state
from pilotage.store.tables import iterations
from pilotage.store.tables.jobs import jobs
from pilotage.store.tables.leases import leases
from pilotage.store.tables.numbers import numbers
from pilotage.store.tables.pilots import pilots
from pilotage.store.tables.servers import servers
from pilotage.store.tables.tasks import tasks
from pilotage.store.tables.tokens import tokens

from .store import Store

LEAST_SKIPPED = 1_000_000
"""Numbers skipped at least; as many as were given before, if these are more."""

ATTEMPTS_SKIPPED = 1_000
"""Attempts of each job that are skipped: no job has as many between two backups."""

NUMBERED = (*STATES, "decision")
"""The kinds of records with numbers. The store may know none of a kind, and its lost servers some."""

_n, _j, _t = numbers.c, jobs.c, tasks.c
_KNOWN = select(_n.kind, _n.last)
_RAISE = update(jobs).where(_j.state != str(JobState.FINISHED)).values(attempt=_j.attempt + ATTEMPTS_SKIPPED)
_ALLOW = update(tasks).values(attempts_before=_t.attempts_before + ATTEMPTS_SKIPPED)
_NEWEST = select(_t.id, _t.created).order_by(_t.id.desc()).limit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What changed. Times are in s since 1970 UTC."""

    newest_task: int | None
    """The last task that the store knows."""
    accepted: float | None
    """When that task was accepted; later ones are gone."""
    next_task: int
    """The number of the next task."""
    jobs: int
    """Live jobs, which go on with a higher attempt."""
    pilots: int
    """Live pilots, which have no access any more."""
    matches_begin: float
    """When jobs go to pilots again: by then the payloads of before have ended."""


def restored(store: Store, pilots_ended: bool = False) -> Restored:
    """Skip numbers and attempts, end all tokens and pilots, and let matches begin only when leases are over.

    With ``pilots_ended`` no pilot of before runs any more: matches begin at once. It may be repeated: each
    time skips more. No server may run. Raises :class:`NoFederation`.
    """
    timeouts, now = store.federation().timeouts, store.clock()
    begin = now if pilots_ended else now + max(longest_heartbeat(timeouts), timeouts.sent)
    return store.database.write(lambda connection: _restored(connection, begin))


def _restored(connection: Connection, begin: float) -> Restored:
    newest = connection.execute(_NEWEST).one_or_none()
    live = connection.execute(select(func.count()).where(is_state(jobs, *LIVE_JOBS))).scalar_one()
    ended = connection.execute(select(func.count()).where(is_state(pilots, *LIVE_PILOTS))).scalar_one()
    known: dict[str, int] = {row.kind: row.last for row in connection.execute(_KNOWN)}
    skipped = [(kind, max(known.get(kind, 0), LEAST_SKIPPED)) for kind in {*NUMBERED, *known}]
    bulk.add(connection, numbers, ("kind",), "last", skipped)
    connection.execute(_RAISE)
    connection.execute(_ALLOW)
    for table in (tokens, servers, leases):
        connection.execute(delete(table))
    iterations.note(connection, iterations.MATCHES_BEGIN, begin)
    return Restored(
        newest_task=newest.id if newest else None,
        accepted=newest.created if newest else None,
        next_task=known.get("task", 0) + dict(skipped)["task"] + 1,
        jobs=live,
        pilots=ended,
        matches_begin=begin,
    )
