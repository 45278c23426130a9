"""The catalogue for people: files by identifier and pattern, their storages, and who needs them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.records.states import DONE_JOBS, LIVE_JOBS, LIVE_TRANSFERS, JobState, TaskState
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.request_budget import asking
from pilotage.store.database.columns import begins, has_state, is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import TooBroad
from pilotage.store.database.rows import among
from pilotage.store.files import table as file_rows
from pilotage.store.files.table import FILE_COLUMNS, files, replicas
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import TASK_COLUMNS, SpecCache, tasks
from pilotage.store.transfers.table import transfers

_READ = (
    select(job_inputs.c.file)
    .distinct()
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(among(job_inputs.c.file, "names"), has_state(jobs, *LIVE_JOBS))
)
_MOVING = select(transfers.c.file).where(
    among(transfers.c.file, "names"), is_state(transfers, *LIVE_TRANSFERS)
)
_UNSPLIT = select(*TASK_COLUMNS).where(
    is_state(tasks, TaskState.WAITING, TaskState.REGISTERED, TaskState.SCOUTING, TaskState.SPLITTING),
    tasks.c.created >= bindparam("since"),
)


def wanted_of(reader: RecordReader, names: Sequence[str], since: float = 0.0) -> set[str]:
    """Return which of these files a live job reads, a task will read, or a transfer moves.

    Consider tasks without all their jobs only if they were submitted ``since`` a time.
    """
    in_use = {name for (name,) in reader.rows(_READ, names=list(names))}
    in_use |= {name for (name,) in reader.rows(_MOVING, names=list(names))}
    return in_use | (asked_by_tasks(reader, since) & set(names))


def asked_by_tasks(reader: RecordReader, since: float = 0.0) -> set[str]:
    """Return the files that tasks will read with jobs that are not made yet."""
    return {
        file.identifier
        for task in reader.tasks_from(_UNSPLIT, since=since)
        for file in task.spec.inputs
        if isinstance(file, InputFile)
    }


PAGE = 10_000
"""Files to read in one page while matching a pattern."""

MOST_EXAMINED = 1_000_000
"""Most files compared with one pattern: that takes a few seconds."""

_f, _r = files.c, replicas.c
_SINCE = select(_r.file, func.min(_r.since)).where(among(_r.file, "names")).group_by(_r.file)
_AUTHOR = select(_f.author).where(_f.name == bindparam("file"))
_STARTED = (
    select(job_inputs.c.job)
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(job_inputs.c.file == bindparam("file"), has_state(jobs, JobState.RUNNING, *DONE_JOBS))
    .limit(1)
)

_MERGING = select(jobs.c.id).where(jobs.c.task == bindparam("of"), jobs.c.kind == "merge")
_MADE = select(*FILE_COLUMNS).where(_f.task == bindparam("of"), _f.task.is_not(None), _f.job.is_not(None))


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A file, and its replicas."""

    file: File
    replicas: tuple[Replica, ...]


class Catalogue:
    """Reads files and their replicas."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database = database
        self._specs = specs

    def entry(self, file: str) -> CatalogueEntry | None:
        """Return a file by its identifier; None if there is none."""
        return next(iter(self.entries([file])), None)

    def entries(self, files: Sequence[str]) -> list[CatalogueEntry]:
        """Return files by identifier with their replicas, without unknown ones."""

        def read(connection: Connection) -> list[CatalogueEntry]:
            reader = RecordReader(connection, self._specs)
            return _with_replicas(reader, reader.files(files))

        return self._database.read(read)

    def outputs(self, task: int, after: str) -> Iterator[tuple[CatalogueEntry, bool]]:
        """Yield the files that a task's jobs made, and whether a merge job made each.

        Begin after the file ``after``, in order of identifier. Read pages, because a task may have millions.
        """

        def read(connection: Connection) -> list[tuple[CatalogueEntry, bool]]:
            reader = RecordReader(connection, self._specs)
            merging = set(connection.execute(_MERGING, {"of": task}).scalars())
            query = _MADE.where(_f.name > after).order_by(_f.name).limit(PAGE)
            entries = _with_replicas(
                reader, [File(**row._mapping) for row in connection.execute(query, {"of": task})]
            )
            return [(entry, entry.file.job in merging) for entry in entries]

        while page := self._database.read(read):
            yield from page
            after = page[-1][0].file.name

    def author(self, file: str) -> str:
        """Return the person who described a file, as events name people.

        Empty once an operator, the file's bytes, or a job that reads it and has started confirms it.
        """

        def read(connection: Connection) -> str:
            if connection.execute(_STARTED, {"file": file}).first():
                return ""
            return connection.execute(_AUTHOR, {"file": file}).scalar() or ""

        return self._database.read(read)

    def since(self, names: Sequence[str]) -> dict[str, float]:
        """Return when each file came to the first of its storages, in s since 1970; without unknown ones."""

        def read(connection: Connection) -> dict[str, float]:
            rows = connection.execute(_SINCE, {"names": list(names)})
            return {file: since for file, since in rows if since is not None}

        return self._database.read(read)

    def files(self, names: Sequence[str]) -> list[File]:
        """Return files by identifier, without unknown ones."""
        return self._database.read(lambda connection: [*RecordReader(connection, self._specs).files(names)])

    def matching(
        self, prefix: str, accepts: Callable[[str], bool], after: str, limit: int
    ) -> list[CatalogueEntry]:
        """Return accepted files with a prefix, by identifier after ``after``.

        This reads only files with the prefix, and calls ``accepts`` for each identifier. Raises ``TooBroad``
        after more than ``MOST_EXAMINED`` calls.
        """

        def read(connection: Connection) -> list[CatalogueEntry]:
            reader = RecordReader(connection, self._specs)
            matches: list[File] = []
            for number, file in enumerate(asking(_beginning(reader, prefix, after))):
                if number == MOST_EXAMINED:
                    raise TooBroad(MOST_EXAMINED)
                if accepts(file.name):
                    matches.append(file)
                    if len(matches) == limit:
                        break
            return _with_replicas(reader, matches)

        return self._database.read(read)

    def in_use(self, names: Sequence[str]) -> set[str]:
        """Return which of these files a live job reads, a task will read, or a transfer moves."""

        def read(connection: Connection) -> set[str]:
            return wanted_of(RecordReader(connection, self._specs), names)

        return self._database.read(read)


def _with_replicas(reader: RecordReader, listed: Sequence[File]) -> list[CatalogueEntry]:
    replicas: dict[str, list[Replica]] = {}
    for replica in reader.replicas_of(listed):
        replicas.setdefault(replica.file, []).append(replica)
    return [CatalogueEntry(file, tuple(replicas.get(file.name, ()))) for file in listed]


def _beginning(reader: RecordReader, prefix: str, after: str) -> Iterator[File]:
    """Yield files with a prefix, by identifier, in pages."""
    while True:
        query = select(*FILE_COLUMNS).where(begins(_f.name, prefix, after))
        page = list(reader.rows(query.order_by(_f.name).limit(PAGE)))
        yield from map(file_rows.file, page)
        if len(page) < PAGE:
            return
        after = page[-1][0]
