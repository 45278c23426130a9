"""The commit of matches on SQLite. Its single writer needs only a few statements."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.states import JobState, PilotState
from pilotage.store.database import bulk
from pilotage.store.database.record_columns import listed
from pilotage.store.history.events import NewEvents
from pilotage.store.jobs.counters import KEY_COLUMNS, Differences
from pilotage.store.jobs.table import JOB_COLUMNS, jobs
from pilotage.store.matching.match_requests import AskedClaim, Basis
from pilotage.store.queues.last_seen import REPORTED_AFTER
from pilotage.store.tasks.table import TASK_COLUMNS

if TYPE_CHECKING:
    import sqlite3

VERSION = "SELECT coalesce((SELECT max(version) FROM federations), 0) AS version"
STANDING = f"""
SELECT coalesce((SELECT number FROM activations WHERE queue = {{queue}}), 0) AS number,
  ({VERSION}) AS version"""

_SMALL = 2000
"""Largest specification in bytes that comes with each match: it costs less than another query."""

TASK = listed(TASK_COLUMNS, of="tasks.") + (
    f", CASE WHEN {{size}}(tasks.spec) < {_SMALL} THEN tasks.spec END"
)

_STANDING_HERE = STANDING.format(queue="?")
# Search by number: without the sign SQLite walks through all running pilots.
_ALIVE = f"""
SELECT id, matched FROM pilots
WHERE id IN (SELECT value FROM json_each(?)) AND +state = '{PilotState.RUNNING}'"""
_HEAD = f"""
SELECT {listed(JOB_COLUMNS)} FROM jobs
WHERE queue = ? AND requirements = ? AND priority = ? AND state = '{JobState.ACTIVATED}'
ORDER BY created, id LIMIT ?"""
_HEAD_WITHOUT = _HEAD.replace("ORDER BY", "AND task NOT IN (SELECT value FROM json_each(?)) ORDER BY")
# Read each task once: reading it with every job would take as long as the job itself.
_TASKS = f"""
SELECT {TASK.format(size="length")} FROM tasks WHERE id IN (SELECT value FROM json_each(?))"""
TOUCH = "UPDATE pilots SET heartbeat = ?, matched = matched + ?, containment = ?, node = ? WHERE id = ?"
_REPORT = f"""
UPDATE queue_reports SET last_pilot = ? WHERE queue = ? AND coalesce(last_pilot, 0) < ? - {REPORTED_AFTER}"""

_PLACES: Mapping[str, int] = {column.name: place for place, column in enumerate(JOB_COLUMNS)}
_ID, _ATTEMPT, _TASK = _PLACES["id"], _PLACES["attempt"], _PLACES["task"]
_SENT = tuple(_PLACES[name] for name in ("state", "since", "pilot", "queue"))
KEYS = itemgetter(*(_PLACES[name] for name in KEY_COLUMNS["job"]))


Row = tuple[Any, ...]


def give(
    driver: "sqlite3.Connection", claims: Sequence[AskedClaim], events: NewEvents, meaning: int
) -> list[tuple[bool, bool, list[Row]]]:
    """Give each pilot its jobs. ``meaning`` is the number of the transition's meaning.

    Return for each pilot whether it runs, whether its request's basis still holds, and its jobs.
    """
    queues = dict.fromkeys(claim.request.queue for claim in claims)
    standings = {queue: standing_now(driver, queue) for queue in queues}
    alive = dict(driver.execute(_ALIVE, (json.dumps([claim.request.pilot for claim in claims]),)).fetchall())
    verdicts = [
        _is_held(alive.get(claim.request.pilot), claim.basis, standings[claim.request.queue])
        for claim in claims
    ]
    good = [claim for claim, (_, holds) in zip(claims, verdicts, strict=True) if holds]
    dealt = _deal(driver, [claim.request for claim in good])
    counted = Differences()
    for rows in filter(None, dealt):
        for keys, count in Counter(map(KEYS, rows)).items():
            counted.moved("job", keys, keys, JobState.ACTIVATED, JobState.SENT, count)
    sent = [
        (str(JobState.SENT), claim.time, claim.request.pilot, claim.entry(row[_ATTEMPT]), row[_ID])
        for claim, rows in zip(good, dealt, strict=True)
        for row in rows
    ]
    bulk.update(driver, jobs, ("state", "since", "pilot"), sent, appended="history")
    touched = (_touch(claim, len(rows)) for claim, rows in zip(good, dealt, strict=True))
    driver.executemany(TOUCH, touched)
    counted.write(driver)
    log(events, meaning, [row for rows in dealt for row in rows])
    events.write(driver)
    for queue in dict.fromkeys(claim.request.queue for claim in good):
        driver.execute(_REPORT, (claims[0].time, queue, claims[0].time))
    tasks = _tasks(driver, {row[_TASK] for rows in dealt for row in rows})
    answers = iter(
        [(*as_sent(row, claim.request, claim.time), *tasks[row[_TASK]]) for row in rows]
        for claim, rows in zip(good, dealt, strict=True)
    )
    return [(alive, holds, next(answers) if holds else []) for alive, holds in verdicts]


def _touch(claim: AskedClaim, count: int) -> Row:
    """Return the values of ``TOUCH`` for a pilot that got so many jobs."""
    return claim.time, count, claim.request.containment, claim.request.node, claim.request.pilot


def log(events: NewEvents, meaning: int, rows: Sequence[Row]) -> None:
    """Note the events of jobs that pilots took."""
    by_task: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        by_task[row[_TASK]].append(row[_ID])
    for task, ids in by_task.items():
        events.note("job", meaning, task, ids)


def standing_now(driver: "sqlite3.Connection", queue: str) -> Row | None:
    """Return the basis of a request: the last activation at its queue, and the federation's version."""
    row: Row | None = driver.execute(_STANDING_HERE, (queue,)).fetchone()
    return row


def _is_held(matched: int | None, basis: Basis, standing: Row | None) -> tuple[bool, bool]:
    """Return whether a pilot runs, and whether its request's basis still holds.

    ``matched`` is its number of jobs if it runs.
    """
    if matched is None or standing != (basis.number, basis.version):
        return matched is not None, False
    return True, (matched > 0) == basis.used


def _deal(driver: "sqlite3.Connection", requests: Sequence[ClaimRequest]) -> list[list[Row]]:
    """Give the first jobs of the drawn task queues to each pilot in turn."""
    numbers: Counter[tuple[str, str, int]] = Counter()
    for request in requests:
        for head in request.heads:
            numbers[request.queue, head.requirements, head.priority] += head.jobs
    if any(request.passed_over for request in requests):
        return _deal_one_by_one(driver, requests, numbers)
    heads = {key: iter(driver.execute(_HEAD, (*key, count)).fetchall()) for key, count in numbers.items()}
    return [
        [
            row
            for head in request.heads
            for row in islice(heads[request.queue, head.requirements, head.priority], head.jobs)
        ]
        for request in requests
    ]


def _deal_one_by_one(
    driver: "sqlite3.Connection",
    requests: Sequence[ClaimRequest],
    numbers: Mapping[tuple[str, str, int], int],
) -> list[list[Row]]:
    """Like ``_deal``, but withhold jobs of some tasks from some pilots (F2)."""
    dealt: set[int] = set()
    rows_by_request: list[list[Row]] = []
    for request in requests:
        rows: list[Row] = []
        for head in request.heads:
            key = request.queue, head.requirements, head.priority
            values = (*key, json.dumps(request.passed_over), numbers[key])
            rest = (row for row in driver.execute(_HEAD_WITHOUT, values) if row[_ID] not in dealt)
            rows += islice(rest, head.jobs)
            dealt.update(row[_ID] for row in rows)
        rows_by_request.append(rows)
    return rows_by_request


def _tasks(driver: "sqlite3.Connection", ids: Collection[int]) -> dict[int, Row]:
    rows = driver.execute(_TASKS, (json.dumps(sorted(ids)),)).fetchall() if ids else ()
    return {row[0]: row for row in rows}


def as_sent(row: Row, request: ClaimRequest | BorrowRequest, time: float) -> Row:
    """Return the row of a job after its match."""
    values = list(row)
    new = str(JobState.SENT), time, request.pilot, request.queue
    for place, value in zip(_SENT, new, strict=True):
        values[place] = value
    return tuple(values)
