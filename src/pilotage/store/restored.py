"""Repairs that a store needs once after a restore to an earlier time.

Servers ran after the backup. They assigned numbers and attempts that this store does not have, and their
pilots may still run.
"""

from dataclasses import dataclass, replace

from sqlalchemy import Connection, Table, delete, func, select, update

from pilotage.model.documents.decision import Decision, Move, Value
from pilotage.model.documents.moves import FRESH
from pilotage.model.records.states import AT_A_PILOT, LIVE_JOBS, STATES, JobState, PilotState
from pilotage.model.rules.timeouts import longest_heartbeat
from pilotage.model.values.paths import scratch_path
from pilotage.store.audit import chain
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.history.numbers import numbers
from pilotage.store.jobs import ended_attempts
from pilotage.store.jobs.table import jobs
from pilotage.store.people.tokens import tokens
from pilotage.store.pilots.table import pilots
from pilotage.store.servers import iterations
from pilotage.store.servers.servers import leases, servers
from pilotage.store.store import Store
from pilotage.store.tasks.table import tasks
from pilotage.store.transfers.storages import Removal

LEAST_SKIPPED = 1_000_000
"""Least numbers to skip. Skip as many as were assigned before, if these are more."""

ATTEMPTS_SKIPPED = 1_000
"""Attempts of each job that are skipped: no job has as many between two backups."""

NUMBERED = (*STATES, "decision")
"""The kinds of records with numbers. The store may know none of a kind, and its lost servers some."""

MARKS = frozenset((ended_attempts.ADDED, chain.LINKED, chain.FORGOTTEN))
"""Stored numbers of rows that stay as they are."""

_n, _j, _t = numbers.c, jobs.c, tasks.c
_KNOWN = select(_n.kind, _n.last)
_RAISE = (
    update(jobs)
    .where(_j.state != str(JobState.FINISHED))
    .values(attempt=_j.attempt + ATTEMPTS_SKIPPED, attempts_before=_j.attempts_before + ATTEMPTS_SKIPPED)
)
_LOWER = update(jobs).where(among(_j.id, "ids")).values(attempt=_j.attempt - 1)
_NEWEST = select(_t.id, _t.created).order_by(_t.id.desc()).limit(1)

_CAUSE = "the store was restored, and its earlier pilots have ended"
_AT_PILOTS = (
    (JobState.SENT, JobState.DEFINED),
    (JobState.STARTING, JobState.DEFINED),
    (JobState.RUNNING, JobState.FAILED),
)
_PILOTS = (
    (PilotState.CREATED, PilotState.CANCELLED),
    (PilotState.SUBMITTED, PilotState.CANCELLED),
    (PilotState.RUNNING, PilotState.FINISHED),
)


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
    """Live pilots. They have lost their access."""
    matches_begin: float
    """When jobs go to pilots again: by then all earlier payloads have ended."""


def restored(store: Store, pilots_ended: bool = False) -> Restored:
    """Skip numbers and attempts, end all tokens and pilots, and let matches begin only when leases are over.

    Jobs that pilots had return to the brokerage, and no failure counts against their queues. With
    ``pilots_ended`` all earlier pilots have ended, and matches may begin immediately. You may call it again:
    each call skips more numbers. While jobs still wait after a restore, another call keeps the tokens made
    since. No server may run.
    """
    now = store.clock()
    waits = store.matches_begin() > now
    begin = now
    if not pilots_ended and store.version():
        timeouts = store.federation().timeouts
        begin += max(longest_heartbeat(timeouts), timeouts.sent)
    ended = store.database.read(lambda connection: _end(connection, now))
    store.removals.add(_scratch_areas(store, now))
    store.commit(ended, "operator")
    moved = [id_ for move in ended.moves if move.next_attempt for id_ in move.ids]
    pilots_of_before = sum(len(move.ids) for move in ended.moves if move.kind == "pilot")
    ends = (servers, leases) if waits else (tokens, servers, leases)
    return store.database.write(
        lambda connection: _restored(connection, begin, moved, pilots_of_before, ends)
    )


def _end(connection: Connection, now: float) -> Decision:
    """Return the end of all pilots, and the next attempts of the jobs that they had."""
    changes: list[Move] = []
    changed: dict[str, Value] = {"error": _CAUSE, "ended": now}
    for source, target in _AT_PILOTS:
        rows = connection.execute(
            select(_j.id, _j.attempt).where(is_state(jobs, source)).order_by(_j.id)
        ).all()
        move = Move(
            kind="job",
            ids=tuple(row.id for row in rows),
            attempts=tuple(row.attempt for row in rows),
            source=source,
            target=target,
            cause=_CAUSE,
            changes=FRESH if target is JobState.DEFINED else changed,
            next_attempt=target is JobState.DEFINED,
        )
        again = replace(move, source=target, target=JobState.DEFINED, changes=FRESH, next_attempt=True)
        changes += [move] if target is JobState.DEFINED else [move, again]
    for pilot, end in _PILOTS:
        ids = connection.execute(select(pilots.c.id).where(is_state(pilots, pilot))).scalars()
        changes.append(
            Move(kind="pilot", ids=tuple(ids), source=pilot, target=end, cause=_CAUSE, changes=changed)
        )
    moves = tuple(move for move in changes if move.ids)
    return Decision(step="restored", time=now, seed=0, changes=moves)


def _scratch_areas(store: Store, now: float) -> list[Removal]:
    """Return the scratch areas of the attempts that pilots had. Each is removed now, and after two leases."""
    if not store.version():
        return []
    federation = store.federation()
    storages = {queue.name: queue.storage for queue in federation.queues}
    attempts = select(_j.id, _j.attempt, _j.queue).where(is_state(jobs, *AT_A_PILOT))
    return [
        Removal(
            storage=storages[row.queue],
            path=scratch_path(federation.name, row.id, row.attempt),
            since=now,
            due=now,
            last=now + 2 * longest_heartbeat(federation.timeouts),
        )
        for row in store.database.read(lambda connection: connection.execute(attempts).all())
        if row.queue in storages
    ]


def _restored(
    connection: Connection, begin: float, moved: list[int], ended: int, ends: tuple[Table, ...]
) -> Restored:
    newest = connection.execute(_NEWEST).one_or_none()
    live = connection.execute(select(func.count()).where(is_state(jobs, *LIVE_JOBS))).scalar_one()
    last_numbers: dict[str, int] = {row.kind: row.last for row in connection.execute(_KNOWN)}
    skipped = [
        (kind, max(last_numbers.get(kind, 0), LEAST_SKIPPED)) for kind in {*NUMBERED, *last_numbers} - MARKS
    ]
    bulk.add(connection, numbers, ("kind",), "last", skipped)
    connection.execute(_RAISE)
    # Jobs that pilots had go on with one of the skipped attempts.
    connection.execute(_LOWER, {"ids": moved})
    for table in ends:
        connection.execute(delete(table))
    iterations.note(connection, iterations.MATCHES_BEGIN, begin)
    return Restored(
        newest_task=newest.id if newest else None,
        accepted=newest.created if newest else None,
        next_task=last_numbers.get("task", 0) + dict(skipped)["task"] + 1,
        jobs=live,
        pilots=ended,
        matches_begin=begin,
    )
