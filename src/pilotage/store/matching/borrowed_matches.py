"""The statements that give waiting jobs of other queues to a pilot (E2).

A job must still be at the queue where the pilot saw it. The statements skip a job that is gone, in another
attempt, or changed by a person (``set``) since. Then the pilot gets its next choice. If the taking site has
limits, ``matches`` checks them in the same transaction (M8).
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pilotage.model.records.matching import BorrowableAttempt, BorrowRequest
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState, PilotState
from pilotage.store.database import arrays
from pilotage.store.database.record_columns import listed
from pilotage.store.history.events import NewEvents
from pilotage.store.history.history import meaning_of
from pilotage.store.jobs.borrowings import COLUMNS, borrowings, row
from pilotage.store.jobs.counters import Differences
from pilotage.store.jobs.table import JOB_COLUMNS
from pilotage.store.matching.local_matches import KEYS, TOUCH, as_sent, log, standing_now
from pilotage.store.matching.match_requests import Basis
from pilotage.store.migrations import functions

if TYPE_CHECKING:
    import sqlite3

StateAndBinding = tuple[JobState, Binding]


KNOWN_ATTEMPTS = 4096
"""Most attempts with cached words."""


class Words:
    """The words for each attempt in the array parameters of PostgreSQL's function, without the history entry.

    It makes the words of an attempt once: every request has all spare attempts until a pilot takes them.
    """

    def __init__(self) -> None:
        self._cache: dict[int, tuple[BorrowableAttempt, tuple[str, ...]]] = {}

    def of(self, attempt: BorrowableAttempt) -> tuple[str, ...]:
        """Return the words of an attempt."""
        entry = self._cache.get(id(attempt))
        if entry is None or entry[0] is not attempt:
            if len(self._cache) >= KNOWN_ATTEMPTS:
                self._cache = {}
            entry = self._cache[id(attempt)] = attempt, _words(attempt)
        return entry[1]


def _words(attempt: BorrowableAttempt) -> tuple[str, ...]:
    borrowing = attempt.borrowing
    *_, reads, document = row(borrowing)
    places = _name(borrowing.preferred), _name(attempt.state)
    texts = arrays.word(reads), arrays.word(document)
    return str(borrowing.job), str(borrowing.attempt), *places, arrays.word(attempt.changes_read), *texts


def key_of(attempt: BorrowableAttempt) -> StateAndBinding:
    """Return the state and binding for the entry in the history."""
    return attempt.state, attempt.borrowing.binding


@cache
def _name(name: str) -> str:
    return arrays.word(name)


_COLUMNS = listed(JOB_COLUMNS, of="jobs.")

POSTGRESQL = f"""
SELECT alive, good, {listed(JOB_COLUMNS, of="given.")}, {{task}}
FROM {functions.BORROW_JOBS}(
  %(pilot)s, %(queue)s, %(activation)s, %(version)s, %(used)s, %(ids)s, %(attempts)s, %(queues)s, %(states)s,
  %(changes)s, %(entries)s, %(reads)s, %(documents)s, %(most)s, %(site)s, %(containment)s, %(node)s, %(time)s
) AS given LEFT JOIN tasks ON tasks.id = given.task"""


def values(
    request: BorrowRequest, basis: Basis, time: float, entries: Mapping[StateAndBinding, str], words: Words
) -> dict[str, Any]:
    """Return the parameters of PostgreSQL's function, given the history entry by state and binding."""
    columns = zip(*map(words.of, request.jobs), strict=True)
    ids, attempts, queues, states, changes, reads, documents = map(arrays.array_of, columns)
    return {
        "pilot": request.pilot,
        "queue": request.queue,
        "site": request.site,
        "activation": basis.number,
        "version": basis.version,
        "used": basis.used,
        "ids": ids,
        "attempts": attempts,
        "queues": queues,
        "states": states,
        "changes": changes,
        "entries": arrays.array([entries[key_of(attempt)] for attempt in request.jobs]),
        "reads": reads,
        "documents": documents,
        "most": request.most,
        "time": time,
        "containment": request.containment,
        "node": request.node,
    }


# SQLite has one writer at a time, so a few statements do the work of the function.

_ALIVE = f"SELECT matched FROM pilots WHERE id = ? AND state = '{PilotState.RUNNING}'"
# The plus keeps SQLite from partial indexes on the state. For these it would plan again for each bound value,
# and that takes five times as long as the look-up.
_HELD = """
SELECT {columns}, {task} FROM jobs JOIN tasks ON tasks.id = jobs.task
WHERE jobs.id = ? AND jobs.attempt = ? AND jobs.queue = ? AND +jobs.state = ?
  AND jobs.changes = ?"""
_SEND = f"""
UPDATE jobs SET state = '{JobState.SENT}', since = ?, pilot = ?, queue = ?, history = history || ?
WHERE id = ?"""
_KEEP = f"INSERT INTO {borrowings.name} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


def take(
    driver: "sqlite3.Connection",
    request: BorrowRequest,
    basis: Basis,
    time: float,
    entries: Mapping[StateAndBinding, Callable[[int], str]],
    events: NewEvents,
    task: str,
) -> tuple[bool, bool, list[tuple[Any, ...]]]:
    """Give the jobs that still wait, on SQLite. Return rows of jobs and their tasks,

    with whether the pilot is alive and whether the basis holds.
    """
    run = driver.execute
    alive, standing = run(_ALIVE, (request.pilot,)).fetchone(), standing_now(driver, request.queue)
    if alive is None or standing != (basis.number, basis.version) or (alive[0] > 0) != basis.used:
        return alive is not None, False, []
    query = _HELD.format(columns=_COLUMNS, task=task)
    pairs: list[tuple[BorrowableAttempt, tuple[Any, ...]]] = []
    for candidate in request.jobs:
        there = candidate.borrowing
        seen_as = there.job, there.attempt, there.preferred, str(candidate.state), candidate.changes_read
        if len(pairs) < request.most and (record := run(query, seen_as).fetchone()):
            pairs.append((candidate, record))
    counted, rows = Differences(), []
    for candidate, before in pairs:
        there, after = candidate.borrowing, as_sent(before, request, time)
        rows.append(after)
        entry = entries[key_of(candidate)](there.attempt)
        log(events, meaning_of(entry), [before])
        run(_SEND, (time, request.pilot, request.queue, entry, there.job))
        *_, reads, document = row(there)
        run(_KEEP, (there.job, there.attempt, request.site, time, reads, document))
        counted.moved("job", KEYS(before), KEYS(after), candidate.state, JobState.SENT, 1)
    counted.write(driver)
    events.write(driver)
    run(TOUCH, (time, len(pairs), request.containment, request.node, request.pilot))
    return True, True, rows
