"""The commit of matches: the first jobs of task queues go to a pilot, with one call on PostgreSQL.

A cache decided which task queues to offer to the pilot. This checks that it was current: the federation is
the same, no commit has activated jobs since, and the pilot is alive. It skips jobs that another transaction
takes. A lost answer loses no job: another pilot gets the job after its time in state SENT.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.documents.world import JobCount
from pilotage.model.records.borrowing import CAUSE, CAUSES
from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, Job, Pilot, Replica, Task
from pilotage.store.database import arrays
from pilotage.store.database.columns import is_state
from pilotage.store.database.dialects import driver
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import listed
from pilotage.store.database.rows import among
from pilotage.store.history.events import NewEvents
from pilotage.store.history.history import TransitionKind, TransitionKinds, entry
from pilotage.store.jobs.counters import Deltas
from pilotage.store.jobs.table import INPUT_COUNT, JOB_COLUMNS, job
from pilotage.store.jobs.table import jobs as job_table
from pilotage.store.jobs.task_queues import LEVELS, lines
from pilotage.store.matching import borrowed_matches
from pilotage.store.matching.local_matches import STANDING, TASK, VERSION, give
from pilotage.store.matching.match_requests import AskedClaim, Basis, ClaimResult, Standing
from pilotage.store.migrations import functions
from pilotage.store.pilots.table import pilots
from pilotage.store.queues.last_seen import REPORTED_AFTER
from pilotage.store.reader import RecordReader
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import SpecCache

if TYPE_CHECKING:
    import sqlite3

_LEVELS_OF = select(LEVELS.where(among(lines.c.queue, "queues")).subquery("levels"))

_j = job_table.c
_WAITING = (
    select(_j.task, _j.requirements, _j.priority, func.count())
    .where(among(_j.task, "tasks"), is_state(job_table, JobState.ACTIVATED), _j.queue == bindparam("queue"))
    .group_by(_j.task, _j.requirements, _j.priority)
)

_THESE = among(pilots.c.id, "ids")

KNOWN_TASKS = 4096
"""Most cached tasks."""

log = logging.getLogger(__name__)

_TASK_PLACE = len(JOB_COLUMNS)
"""The first index of the task's columns in a row."""

_GIVE = f"""
SELECT alive, good, {listed(JOB_COLUMNS, of="given.")},
  {TASK.format(size="pg_column_size")}
FROM {functions.GIVE_JOBS}(
  %(pilot)s, %(queue)s, %(requirements)s, %(priorities)s, %(counts)s, %(number)s, %(version)s, %(used)s,
  %(containment)s, %(node)s, %(time)s, %(entry)s, %(closed)s
) AS given LEFT JOIN tasks ON tasks.id = given.task"""

_REPORT_POSTGRESQL = f"""
UPDATE queue_reports SET last_pilot = %(time)s
WHERE queue = %(queue)s AND coalesce(last_pilot, 0) < %(time)s - {REPORTED_AFTER} RETURNING queue"""


_Taken = tuple[bool, bool, list[tuple[Any, ...]]]
"""Whether the pilot is alive, whether its request held, and the rows of its jobs."""


class Matches:
    """Reads task queues, and gives their jobs away."""

    def __init__(
        self,
        database: Database,
        specs: SpecCache,
        kinds: TransitionKinds,
        left_beside: Callable[[], None],
        tell: Callable[[Decision, Committed], None],
        keeps_events: bool = True,
    ) -> None:
        self._database = database
        self._specs = specs
        self._kinds = kinds
        self._left_beside = left_beside
        self._tell = tell
        self._keeps_events = keeps_events
        self._reported: dict[str, float] = {}
        self._tasks: dict[tuple[Any, ...], Task] = {}
        self._transitions: dict[tuple[JobState, str], int] = {}
        self._words = borrowed_matches.Words()

    def standing(self, queue: str) -> Standing:
        """Return the task queues of a queue."""
        sql = STANDING.format(queue=self._database.dialect.mark)
        levels = select(LEVELS.where(lines.c.queue == queue).subquery("levels"))

        def read(connection: Connection) -> Standing:
            number, version = connection.exec_driver_sql(sql, (queue,)).one()
            rows = (tuple(row[1:]) for row in connection.execute(levels))
            return Standing(number, version, tuple((name, at, int(jobs)) for name, at, jobs in rows))

        return self._database.read(read)

    def standings(self, queues: Iterable[str]) -> dict[str, Standing]:
        """Return the task queues of several queues at one moment."""
        names = sorted(queues)

        def read(connection: Connection) -> dict[str, Standing]:
            version, numbers = _numbers(connection)
            levels: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
            for queue, name, at, jobs in connection.execute(_LEVELS_OF, {"queues": names}):
                levels[queue].append((name, at, int(jobs)))
            return {name: Standing(numbers.get(name, 0), version, tuple(levels[name])) for name in names}

        return self._database.read(read) if names else {}

    def waiting(self, queue: str, tasks: Sequence[int]) -> list[tuple[int, str, int, int]]:
        """Return the numbers of tasks' activated jobs at a queue, by task, requirements and priority."""
        values = {"queue": queue, "tasks": tasks}
        return self._database.read(
            lambda connection: [tuple(row) for row in connection.execute(_WAITING, values)]
        )

    def commit(self, decision: Decision, bases: Sequence[Basis] = ()) -> list[ClaimResult]:
        """Give pilots the requested jobs that still wait. Each request is a heartbeat too.

        ``bases`` has the basis of each request; without them, it is the current state. On SQLite, claims
        alone are one transaction, else each request is one. Listeners get the jobs that pilots took.
        """
        requests = decision.requests
        claims = (
            [request for request in requests if isinstance(request, ClaimRequest)] if len(bases) > 1 else []
        )
        if claims and len(claims) == len(requests) and not self._database.is_postgresql:
            results = self._claim_all(claims, bases, decision.time)
        else:
            each_basis = bases or (self._standing_basis(request) for request in requests)
            results = [
                self._match(request, basis, decision.time)
                for request, basis in zip(requests, each_basis, strict=True)
            ]
        if any(result.jobs for result in results):
            self._database.wait_for_disk()
            _log(requests, results)
            self._tell(decision, committed(results))
        return results

    def _match(self, request: ClaimRequest | BorrowRequest, basis: Basis, time: float) -> ClaimResult:
        if isinstance(request, ClaimRequest):
            return self._claim(request, basis, time)
        return self._borrow(request, basis, time)

    def _standing_basis(self, request: ClaimRequest | BorrowRequest) -> Basis:
        """Read the current basis for a request."""
        version, numbers = self.numbers()
        matched = sum(pilot.matched for pilot in self.pilots([request.pilot]))
        return Basis(numbers.get(request.queue, 0), version, matched > 0)

    def _claim(self, request: ClaimRequest, basis: Basis, time: float) -> ClaimResult:
        """Give a pilot the drawn jobs that still wait."""
        claim = AskedClaim(request, basis, time, _entry(self._transition(), request, time))
        if self._database.is_postgresql:
            rows = self._database.run(_GIVE, _values(claim))
            alive, good = bool(rows[0][0]), bool(rows[0][1])
            job_rows = [tuple(row[2:]) for row in rows if row[2] is not None]
            if job_rows:
                self._left_beside()
            if good:
                self._report(request.queue, time)
            return self._result(alive, good, job_rows)
        ((alive, good, job_rows),) = self._database.write_directly(lambda driver: self._give(driver, [claim]))
        return self._result(alive, good, job_rows)

    def _claim_all(
        self, requests: Sequence[ClaimRequest], bases: Sequence[Basis], time: float
    ) -> list[ClaimResult]:
        """Like ``_claim``, for several pilots in one transaction."""
        kind = self._transition()
        claims = [
            AskedClaim(request, basis, time, _entry(kind, request, time))
            for request, basis in zip(requests, bases, strict=True)
        ]
        answers = self._database.write_directly(lambda driver: self._give(driver, claims))
        whole = self._result(True, True, [row for *_, rows in answers for row in rows])
        jobs = iter(whole.jobs)
        parts = [(alive, good, tuple(islice(jobs, len(rows)))) for alive, good, rows in answers]
        return list(_dealt(whole, parts))

    def _give(
        self, driver: "sqlite3.Connection", claims: Sequence[AskedClaim]
    ) -> list[tuple[bool, bool, list[tuple[Any, ...]]]]:
        events = NewEvents(claims[0].time, self._keeps_events)
        return give(driver, claims, events, self._transition())

    def pilots(self, ids: Sequence[int]) -> tuple[Pilot, ...]:
        """Return the existing pilots with these numbers."""
        if not ids:
            return ()
        return self._database.read(
            lambda connection: RecordReader(connection, self._specs).pilots(_THESE, ids=ids)
        )

    def numbers(self) -> tuple[int, dict[str, int]]:
        """Return the federation's version, and the number of the last activation at each queue with any."""
        return self._database.read(_numbers)

    def job_counts(self) -> tuple[JobCount, ...]:
        """Return live jobs by queue, share and state."""
        return self._database.read(lambda connection: RecordReader(connection, self._specs).job_counts())

    def _transition(self, state: JobState = JobState.ACTIVATED, cause: str = CAUSE) -> int:
        """Return the number of the transition that gives a job to any pilot. It never changes."""
        number = self._transitions.get((state, cause))
        if number is None:
            kind = TransitionKind.of("job", state, JobState.SENT, cause, "pilot:1")
            number = self._transitions[state, cause] = self._kinds.numbers([kind])[kind]
        return number

    def _borrow(self, request: BorrowRequest, basis: Basis, time: float) -> ClaimResult:
        """Give a pilot the jobs of other queues that still wait there."""
        entries = {
            key: _entry(self._transition(key[0], CAUSES[key[1]]), request, time)
            for key in set(map(borrowed_matches.key_of, request.jobs))
        }
        if self._database.is_postgresql:
            sql = borrowed_matches.POSTGRESQL.format(task=TASK.format(size="pg_column_size"))
            written = {key: of(1).rstrip() for key, of in entries.items()}
            values = borrowed_matches.values(request, basis, time, written, self._words)
            if request.claims:
                answer = self._with_claims(
                    request, lambda connection: _rows(connection.exec_driver_sql(sql, values).all())
                )
            else:
                answer = _rows(self._database.run(sql, values))
            if answer[2]:
                self._left_beside()
            return self._result(*answer)

        def take(driver: "sqlite3.Connection") -> _Taken:
            return borrowed_matches.take(
                driver,
                request,
                basis,
                time,
                entries,
                NewEvents(time, self._keeps_events),
                TASK.format(size="length"),
            )

        if request.claims:
            return self._result(*self._with_claims(request, lambda connection: take(driver(connection))))
        return self._result(*self._database.write_directly(take))

    def _with_claims(self, request: BorrowRequest, take: Callable[[Connection], _Taken]) -> _Taken:
        """Take jobs if the limits of the taking site have room for all of them, and count them (M5, M8).

        It is the only writer, so that two requests cannot exceed a limit together.
        """

        def write(connection: Connection) -> _Taken:
            deltas = Deltas(connection)
            deltas.look_up(request.claims)
            if deltas.room(request.claims, request.most) < request.most:
                return True, True, []
            answer = take(connection)
            deltas.count_matches(request.claims, len(answer[2]))
            deltas.write(connection)
            return answer

        return self._database.write(write)

    def _report(self, queue: str, time: float) -> None:
        """Record, from time to time, that a pilot of the queue called."""
        if self._reported.get(queue, 0.0) < time - REPORTED_AFTER:
            self._reported[queue] = time
            self._database.run(_REPORT_POSTGRESQL, {"queue": queue, "time": time})

    def _result(self, alive: bool, good: bool, rows: Sequence[tuple[Any, ...]]) -> ClaimResult:
        if not rows:
            return ClaimResult(alive, good)
        tasks = self._tasks_of(rows)
        job_rows = [row[:_TASK_PLACE] for row in rows]
        if not any(row[INPUT_COUNT] for row in job_rows):
            return ClaimResult(alive, good, tuple(job(row, ()) for row in job_rows), tasks)

        def read(connection: Connection) -> tuple[tuple[Job, ...], tuple[File, ...], tuple[Replica, ...]]:
            reader = RecordReader(connection, self._specs)
            jobs = reader.with_inputs(job_rows)
            files = reader.inputs_of(jobs)
            return jobs, files, reader.replicas_of(files)

        jobs, files, replicas = self._database.read(read)
        return ClaimResult(alive, good, jobs, tasks, files, replicas)

    def _tasks_of(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Task, ...]:
        """Return the tasks of these rows.

        Make a task once per state and cache it, because its jobs leave one by one.
        """
        texts = {row[_TASK_PLACE:-1]: row[-1] for row in rows}
        if len(self._tasks) > KNOWN_TASKS:
            self._tasks = {}
        # Another thread may replace the cache before the next line.
        cache = self._tasks
        missing = {record[0]: record for record in texts if record not in cache}
        if missing:
            specs = self._specs.parsed({id_: texts[record] for id_, record in missing.items()})
            if specs is None:
                specs = self._database.read(lambda connection: self._specs.of(connection, missing))
            for id_, record in missing.items():
                cache[record] = task_rows.task(record, specs[id_])
        return tuple(cache[record] for record in sorted(texts, key=itemgetter(0)))


def _rows(answer: Sequence[Any]) -> _Taken:
    """Parse the answer of PostgreSQL's function."""
    alive, good, *_ = answer[0]
    return bool(alive), bool(good), [tuple(row[2:]) for row in answer if row[2] is not None]


def _entry(transition: int, request: ClaimRequest | BorrowRequest, time: float) -> Callable[[int], str]:
    """Return the history entry of a job given to a pilot, as a function of the job's attempt."""
    actor = f"pilot:{request.pilot}"
    return lambda attempt: entry(transition, time, actor, attempt=attempt)


def _log(requests: Sequence[ClaimRequest | BorrowRequest], results: Sequence[ClaimResult]) -> None:
    """Log, to debug, which jobs pilots took."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for request, result in zip(requests, results, strict=True):
        about = {"queue": request.queue, "pilot": request.pilot}
        for sent in result.jobs:
            extra = about | {"task": sent.task, "job": sent.id}
            log.debug("job %d: taken by pilot %d", sent.id, request.pilot, extra=extra)


def committed(results: Sequence[ClaimResult]) -> Committed:
    """Return the outcome of each request of a decision."""
    return Committed(
        accepted=tuple([tuple([job.id for job in result.jobs]) for result in results]),
        created=((),) * len(results),
    )


def _numbers(connection: Connection) -> tuple[int, dict[str, int]]:
    version = connection.exec_driver_sql(VERSION).scalar_one()
    rows = connection.exec_driver_sql("SELECT queue, number FROM activations")
    return version, dict(tuple(row) for row in rows)


def _values(claim: AskedClaim) -> dict[str, Any]:
    request, basis = claim.request, claim.basis
    return {
        "queue": request.queue,
        "pilot": request.pilot,
        "number": basis.number,
        "version": basis.version,
        "used": basis.used,
        "containment": request.containment,
        "node": request.node,
        "time": claim.time,
        "entry": claim.entry(1).rstrip(),
        "requirements": arrays.array([head.requirements for head in request.heads]),
        "priorities": arrays.array([head.priority for head in request.heads]),
        "counts": arrays.array([head.jobs for head in request.heads]),
        "closed": arrays.array(request.passed_over),
    }


def _dealt(whole: ClaimResult, parts: Iterable[tuple[bool, bool, tuple[Job, ...]]]) -> Iterator[ClaimResult]:
    """Yield the jobs given to several pilots, by pilot."""
    tasks = {task.id: task for task in whole.tasks}
    files = {file.name: file for file in whole.files}
    lying: dict[str, list[Replica]] = defaultdict(list)
    for replica in whole.replicas:
        lying[replica.file].append(replica)
    for alive, good, jobs in parts:
        read = dict.fromkeys(name for job in jobs for name in job.inputs)
        task_ids = dict.fromkeys(job.task for job in jobs)
        job_tasks, job_files = tuple(tasks[id_] for id_ in task_ids), tuple(files[name] for name in read)
        replicas = tuple(replica for name in read for replica in lying[name])
        yield ClaimResult(alive, good, jobs, job_tasks, job_files, replicas)
