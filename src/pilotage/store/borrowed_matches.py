"""The statements by which jobs that wait elsewhere go to a pilot: each only from where it was seen (E2).

A job that is not there any more, or not in that attempt, is not waited for: whoever comes second takes its
next choice. A claim on the taking site is checked in the same transaction; what it has no room for stays.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pilotage.model.borrowing import Borrowing
from pilotage.model.counters import MATCHES_BY_SITE
from pilotage.model.decision import Claim
from pilotage.model.spec import Binding
from pilotage.model.states import JobState, PilotState
from pilotage.model.work import Job

from . import bulk
from .borrowings import COLUMNS, borrowings, row
from .counters import KEY_COLUMNS, MATCHED, Differences
from .jobs import JOB_COLUMNS

State = tuple[JobState, Binding]


@dataclass(frozen=True, slots=True)
class Taken:
    """A job as it was seen where it waits, its binding there, and what is kept of its being taken."""

    job: Job
    binding: Binding
    # Made when it is written: SQLite writes nothing of the spares, which are most.
    borrowing: Callable[[], Borrowing]

    @property
    def state(self) -> State:
        """The state and binding that its entry in the history names."""
        return self.job.state, self.binding


@dataclass(frozen=True, slots=True)
class Basis:
    """The grounds for nothing of the pilot's own queue being drawn: while they hold, nothing came there.

    ``number`` is that of the last activation there, ``version`` that of the federation, and ``used`` whether
    the pilot had been given jobs before.
    """

    number: int
    version: int
    used: bool


@dataclass(frozen=True, slots=True)
class WantedElsewhere:
    """Jobs of other queues for a pilot, which is at ``queue``; a claim bounds the matches of that site.

    It is given ``most`` of them, the first that are still there: the others are spares.
    What the pilot tells of its ``containment`` and ``node`` is noted with them.
    """

    pilot: int
    queue: str
    basis: Basis
    jobs: tuple[Taken, ...]
    most: int
    claim: Claim | None
    containment: str
    node: str
    time: float


_PLACES: Mapping[str, int] = {column.name: place for place, column in enumerate(JOB_COLUMNS)}
_KEYS = itemgetter(*(_PLACES[name] for name in KEY_COLUMNS["job"]))
_KEY_NAMES = ", ".join(KEY_COLUMNS["job"])
_COLUMNS = ", ".join(f"jobs.{column.name}" for column in JOB_COLUMNS)

POSTGRESQL = f"""
WITH alive AS MATERIALIZED (
  SELECT id, matched FROM pilots WHERE id = %(pilot)s::bigint AND coalesce(state, '') = '{PilotState.RUNNING}'
  FOR NO KEY UPDATE
), good AS MATERIALIZED (
  SELECT id FROM alive WHERE (matched > 0) = %(used)s
    AND %(activation)s::bigint = coalesce((SELECT number FROM activations WHERE queue = %(queue)s), 0)
    AND %(version)s::int = coalesce((SELECT max(version) FROM federations), 0)
), wanted AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(queues)s::text[], %(states)s::text[],
    %(entries)s::text[], %(reads)s::boolean[], %(documents)s::text[])
    WITH ORDINALITY AS wanted (id, attempt, queue, state, entry, reads, document, place)
), held AS MATERIALIZED (
  SELECT wanted.*, {", ".join(f"jobs.{name}" for name in ("share", "task", "requirements", "priority"))}
  FROM good CROSS JOIN wanted JOIN jobs ON jobs.id = wanted.id
  WHERE jobs.attempt = wanted.attempt AND jobs.queue = wanted.queue AND jobs.state = wanted.state
  ORDER BY wanted.place LIMIT %(most)s FOR UPDATE OF jobs SKIP LOCKED
), claimed AS (
  UPDATE counters SET count = count + (SELECT count(*) FROM held)
  WHERE %(limited)s AND counter = '{MATCHES_BY_SITE}' AND first = %(site)s AND second = %(number)s
    AND state = '{MATCHED}' AND count - 1 + (SELECT count(*) FROM held) <= %(limit)s RETURNING count
), sent AS (
  UPDATE jobs SET state = 'sent', since = %(time)s, pilot = %(pilot)s::bigint, queue = %(queue)s,
    history = history || held.entry || CASE WHEN jobs.attempt > 1 THEN ' a' || jobs.attempt ELSE '' END
      || chr(10)
  FROM held WHERE jobs.id = held.id AND (NOT %(limited)s OR EXISTS (SELECT FROM claimed))
  RETURNING {_COLUMNS}, held.place, held.queue AS preferred, held.state AS was, held.reads, held.document
), counted AS (
  INSERT INTO job_deltas ({_KEY_NAMES}, source, target, count)
  SELECT {_KEY_NAMES.replace("queue", "preferred", 1)}, was, '', count(*) FROM sent
    GROUP BY {_KEY_NAMES.replace("queue", "preferred", 1)}, was
  UNION ALL SELECT {_KEY_NAMES}, '', 'sent', count(*) FROM sent GROUP BY {_KEY_NAMES}
), kept AS (
  INSERT INTO borrowings ({", ".join(COLUMNS)})
  SELECT id, attempt, %(site_of_queue)s, %(time)s, reads, document FROM sent
), touched AS (
  UPDATE pilots SET heartbeat = %(time)s, matched = pilots.matched + (SELECT count(*) FROM sent),
    containment = %(containment)s, node = %(node)s
  FROM good WHERE pilots.id = good.id
)
SELECT (SELECT count(*) FROM alive), (SELECT count(*) FROM good),
  {_COLUMNS.replace("jobs.", "sent.")}, {{task}}
FROM (SELECT 1) AS always
LEFT JOIN (sent JOIN tasks ON tasks.id = sent.task) ON true
ORDER BY sent.place"""


def values(wanted: WantedElsewhere, entries: Mapping[State, str]) -> dict[str, Any]:
    """The parameters of the statement of PostgreSQL, given the entry in the history by state and binding."""
    jobs = [taken.job for taken in wanted.jobs]
    kept = [taken.borrowing() for taken in wanted.jobs]
    site, number = wanted.claim.key if wanted.claim else ("", 0)
    return {
        "pilot": wanted.pilot,
        "queue": wanted.queue,
        "site_of_queue": kept[0].site,
        "activation": wanted.basis.number,
        "version": wanted.basis.version,
        "used": wanted.basis.used,
        "ids": bulk.array([job.id for job in jobs]),
        "attempts": bulk.array([job.attempt for job in jobs]),
        "queues": bulk.array([job.queue for job in jobs]),
        "states": bulk.array([str(job.state) for job in jobs]),
        "entries": bulk.array([entries[taken.state] for taken in wanted.jobs]),
        "reads": bulk.array([bool(one.reads) for one in kept]),
        "documents": bulk.array([row(one)[-1] for one in kept]),
        "most": wanted.most,
        "limited": wanted.claim is not None,
        "site": str(site),
        "number": str(number),
        "limit": wanted.claim.limit if wanted.claim else 0,
        "time": wanted.time,
        "containment": wanted.containment,
        "node": wanted.node,
    }


# SQLite: one writer at a time, so that a few statements do what one does above.

_STANDING = """
SELECT coalesce((SELECT number FROM activations WHERE queue = ?), 0),
  coalesce((SELECT max(version) FROM federations), 0)"""
_ALIVE = f"SELECT matched FROM pilots WHERE id = ? AND state = '{PilotState.RUNNING}'"
# The plus keeps the state from partial indexes: for these SQLite would plan anew at each value that is bound,
# which takes five times as long as the look-up.
_HELD = """
SELECT {columns}, {task} FROM jobs JOIN tasks ON tasks.id = jobs.task
WHERE jobs.id = ? AND jobs.attempt = ? AND jobs.queue = ? AND +jobs.state = ?"""
_CLAIMED = f"""
UPDATE counters SET count = count + ? WHERE counter = '{MATCHES_BY_SITE}' AND first = ? AND second = ?
  AND state = '{MATCHED}' AND count - 1 + ? <= ?"""
_SEND = """
UPDATE jobs SET state = 'sent', since = ?, pilot = ?, queue = ?, history = history || ? WHERE id = ?"""
_KEEP = f"INSERT INTO {borrowings.name} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_TOUCH = "UPDATE pilots SET heartbeat = ?, matched = matched + ?, containment = ?, node = ? WHERE id = ?"


def take(
    driver: sqlite3.Connection,
    wanted: WantedElsewhere,
    entries: Mapping[State, Callable[[int], str]],
    task: str,
) -> tuple[bool, bool, list[tuple[Any, ...]]]:
    """Give what is still there on SQLite, as rows of jobs and their tasks.

    With them whether the pilot is alive, and whether the basis holds.
    """
    run, basis = driver.execute, wanted.basis
    alive, seen = run(_ALIVE, (wanted.pilot,)).fetchone(), run(_STANDING, (wanted.queue,)).fetchone()
    if alive is None or seen != (basis.number, basis.version) or (alive[0] > 0) != basis.used:
        return alive is not None, False, []
    query = _HELD.format(columns=_COLUMNS, task=task)
    found: list[tuple[Taken, tuple[Any, ...]]] = []
    for taken in wanted.jobs:
        job = taken.job
        if len(found) < wanted.most and (
            held := run(query, (job.id, job.attempt, job.queue, str(job.state))).fetchone()
        ):
            found.append((taken, held))
    if wanted.claim and found and not _claimed(driver, wanted.claim, len(found)):
        found = []
    counted = Differences()
    for taken, _ in found:
        entry = entries[taken.state](taken.job.attempt)
        run(_SEND, (wanted.time, wanted.pilot, wanted.queue, entry, taken.job.id))
        run(_KEEP, row(taken.borrowing()))
    sent = [(taken, held, _sent(held, wanted)) for taken, held in found]
    moved = Counter((_KEYS(before), _KEYS(after), taken.job.state) for taken, before, after in sent)
    for (before, after, state), count in moved.items():
        counted.moved("job", before, after, state, JobState.SENT, count)
    counted.write(driver)
    run(_TOUCH, (wanted.time, len(found), wanted.containment, wanted.node, wanted.pilot))
    return True, True, [after for _, _, after in sent]


def _claimed(driver: sqlite3.Connection, claim: Claim, jobs: int) -> bool:
    site, number = claim.key
    return bool(driver.execute(_CLAIMED, (jobs, site, str(number), jobs, claim.limit)).rowcount)


def _sent(row: Sequence[Any], wanted: WantedElsewhere) -> tuple[Any, ...]:
    changed = {
        "state": str(JobState.SENT),
        "since": wanted.time,
        "pilot": wanted.pilot,
        "queue": wanted.queue,
    }
    values = list(row)
    for name, value in changed.items():
        values[_PLACES[name]] = value
    return tuple(values)
