"""The statements by which jobs that wait elsewhere go to a pilot: each only from where it was seen (E2).

A job that is not there any more, or not in that attempt, is not waited for: whoever comes second takes its
next choice. Where the taking site has limits, ``matches`` checks them in the same transaction (M8).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pilotage.model.documents.decision import Claim
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import Job
from pilotage.store.database import bulk
from pilotage.store.tables.counters import Differences
from pilotage.store.tables.jobs import JOB_COLUMNS
from pilotage.store.worlds.borrowings import COLUMNS, borrowings, row

from .local_matches import KEYS, TOUCH, as_sent, standing_now

if TYPE_CHECKING:
    import sqlite3

StateAndBinding = tuple[JobState, Binding]


@dataclass(slots=True)
class OfferedJob:
    """A job as it was seen where it waits, its binding there, and what is kept of its being taken.

    The prediction is of the time at which it was seen.
    """

    job: Job
    binding: Binding
    # Made when it is written: SQLite writes nothing of the spares, which are most.
    borrowing: Callable[[], Borrowing]
    _words: tuple[str, ...] | None = None

    def kept(self) -> tuple[bool, str]:
        """Tell whether the job reads from afar; with it, the document of its row."""
        *_, reads, document = row(self.borrowing())
        return reads, document

    def words(self) -> tuple[str, ...]:
        """The job's part of the arrays that PostgreSQL's function is given, but for the entry.

        Made once: PostgreSQL is told of each spare with every request until it is taken.
        """
        if self._words is None:
            job, (reads, document) = self.job, self.kept()
            seen = str(job.id), str(job.attempt), _name(job.queue), _name(job.state)
            self._words = *seen, bulk.word(reads), bulk.word(document)
        return self._words

    @property
    def state(self) -> StateAndBinding:
        """The state and binding that its entry in the history names."""
        return self.job.state, self.binding


@cache
def _name(name: str) -> str:
    return bulk.word(name)


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
class BorrowRequest:
    """Jobs of other queues for a pilot, which is at ``queue`` of ``site``; ``claims`` hold the site's limits.

    It is given ``most`` of them, the first that are still there: the others are spares.
    What the pilot tells of its ``containment`` and ``node`` is noted with them.
    """

    pilot: int
    queue: str
    site: str
    basis: Basis
    jobs: tuple[OfferedJob, ...]
    most: int
    claims: tuple[Claim, ...]
    containment: str
    node: str
    time: float


_COLUMNS = ", ".join(f"jobs.{column.name}" for column in JOB_COLUMNS)

POSTGRESQL = f"""
SELECT alive, good, {_COLUMNS.replace("jobs.", "given.")}, {{task}}
FROM borrow_jobs(
  %(pilot)s, %(queue)s, %(activation)s, %(version)s, %(used)s, %(ids)s, %(attempts)s, %(queues)s, %(states)s,
  %(entries)s, %(reads)s, %(documents)s, %(most)s, %(site)s, %(containment)s, %(node)s, %(time)s
) AS given LEFT JOIN tasks ON tasks.id = given.task"""
"""The function stands in ``migrations/functions.py``."""


def values(wanted: BorrowRequest, entries: Mapping[StateAndBinding, str]) -> dict[str, Any]:
    """The parameters of PostgreSQL's function, given the entry in the history by state and binding."""
    columns = zip(*(offered.words() for offered in wanted.jobs), strict=True)
    ids, attempts, queues, states, reads, documents = map(bulk.array_of, columns)
    return {
        "pilot": wanted.pilot,
        "queue": wanted.queue,
        "site": wanted.site,
        "activation": wanted.basis.number,
        "version": wanted.basis.version,
        "used": wanted.basis.used,
        "ids": ids,
        "attempts": attempts,
        "queues": queues,
        "states": states,
        "entries": bulk.array([entries[offered.state] for offered in wanted.jobs]),
        "reads": reads,
        "documents": documents,
        "most": wanted.most,
        "time": wanted.time,
        "containment": wanted.containment,
        "node": wanted.node,
    }


# SQLite: one writer at a time, so that a few statements do what the function does.

_ALIVE = f"SELECT matched FROM pilots WHERE id = ? AND state = '{PilotState.RUNNING}'"
# The plus keeps the state from partial indexes: for these SQLite would plan anew at each value that is bound,
# which takes five times as long as the look-up.
_HELD = """
SELECT {columns}, {task} FROM jobs JOIN tasks ON tasks.id = jobs.task
WHERE jobs.id = ? AND jobs.attempt = ? AND jobs.queue = ? AND +jobs.state = ?"""
_SEND = f"""
UPDATE jobs SET state = '{JobState.SENT}', since = ?, pilot = ?, queue = ?, history = history || ?
WHERE id = ?"""
_KEEP = f"INSERT INTO {borrowings.name} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


def take(
    driver: "sqlite3.Connection",
    wanted: BorrowRequest,
    entries: Mapping[StateAndBinding, Callable[[int], str]],
    task: str,
) -> tuple[bool, bool, list[tuple[Any, ...]]]:
    """Give what is still there on SQLite, as rows of jobs and their tasks.

    With them whether the pilot is alive, and whether the basis holds.
    """
    run, basis = driver.execute, wanted.basis
    alive, seen = run(_ALIVE, (wanted.pilot,)).fetchone(), standing_now(driver, wanted.queue)
    if alive is None or seen != (basis.number, basis.version) or (alive[0] > 0) != basis.used:
        return alive is not None, False, []
    query = _HELD.format(columns=_COLUMNS, task=task)
    found: list[tuple[OfferedJob, tuple[Any, ...]]] = []
    for offered in wanted.jobs:
        job = offered.job
        if len(found) < wanted.most and (
            held := run(query, (job.id, job.attempt, job.queue, str(job.state))).fetchone()
        ):
            found.append((offered, held))
    counted = Differences()
    for taken, _ in found:
        entry = entries[taken.state](taken.job.attempt)
        run(_SEND, (wanted.time, wanted.pilot, wanted.queue, entry, taken.job.id))
        reads, document = taken.kept()
        run(_KEEP, (taken.job.id, taken.job.attempt, wanted.site, wanted.time, reads, document))
    given = [(taken, held, as_sent(held, wanted)) for taken, held in found]
    moved = Counter((KEYS(before), KEYS(after), taken.job.state) for taken, before, after in given)
    for (before, after, state), count in moved.items():
        counted.moved("job", before, after, state, JobState.SENT, count)
    counted.write(driver)
    run(TOUCH, (wanted.time, len(found), wanted.containment, wanted.node, wanted.pilot))
    return True, True, [after for _, _, after in given]
