"""The catalogue as people see it: files by identifier and pattern, and where they lie."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from pilotage.model.records.states import LIVE_JOBS, LIVE_TRANSFERS, TaskState
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.store.database.columns import begins, by_character, has_state, is_state
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import TooBroad
from pilotage.store.database.sets import among
from pilotage.store.tables.files import files
from pilotage.store.tables.jobs import job_inputs, jobs
from pilotage.store.tables.tasks import TASK_COLUMNS, SpecCache, tasks
from pilotage.store.tables.transfers import transfers
from pilotage.store.worlds.reader import RecordReader

PAGE = 10_000
"""Files that are read at once where a pattern is looked for."""

MOST_EXAMINED = 1_000_000
"""Files that are compared with one pattern: it takes a few seconds."""

_f = files.c
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
    is_state(tasks, TaskState.REGISTERED, TaskState.SCOUTING, TaskState.SPLITTING),
    tasks.c.created >= bindparam("since"),
)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A file, and where it lies."""

    file: File
    replicas: tuple[Replica, ...]


class Catalogue:
    """Reads files and their replicas."""

    def __init__(self, database: Database, specs: SpecCache) -> None:
        self._database = database
        self._specs = specs

    def entry(self, file: str) -> CatalogueEntry | None:
        """Read a file by its identifier; None where there is none."""

        def read(connection: Connection) -> CatalogueEntry | None:
            reader = RecordReader(connection, self._specs)
            found = reader.files([file])
            return CatalogueEntry(found[0], reader.replicas_of(found)) if found else None

        return self._database.read(read)

    def files(self, names: Sequence[str]) -> list[File]:
        """Read files by identifier; those that are not known are left out."""
        return self._database.read(lambda connection: [*RecordReader(connection, self._specs).files(names)])

    def matching(
        self, prefix: str, accepts: Callable[[str], bool], after: str, limit: int
    ) -> list[CatalogueEntry]:
        """Read files by identifier, beyond ``after``, which begin with a prefix and are accepted.

        The prefix narrows what is read; what is ``accepted`` is asked of every identifier that has it.
        Raises :class:`TooBroad` where it is asked of more than :data:`MOST_EXAMINED`.
        """

        def read(connection: Connection) -> list[CatalogueEntry]:
            reader = RecordReader(connection, self._specs)
            found: list[File] = []
            for number, file in enumerate(_beginning(reader, prefix, after)):
                if number == MOST_EXAMINED:
                    raise TooBroad(MOST_EXAMINED)
                if accepts(file.name):
                    found.append(file)
                    if len(found) == limit:
                        break
            replicas: dict[str, list[Replica]] = {}
            for replica in reader.replicas_of(found):
                replicas.setdefault(replica.file, []).append(replica)
            return [CatalogueEntry(file, tuple(replicas.get(file.name, ()))) for file in found]

        return self._database.read(read)

    def wanted(self, names: Sequence[str]) -> set[str]:
        """Tell which of these files a live job reads, a task will read, or a transfer moves."""

        def read(connection: Connection) -> set[str]:
            return wanted_of(RecordReader(connection, self._specs), names)

        return self._database.read(read)


def wanted_of(reader: RecordReader, names: Sequence[str], since: float = 0.0) -> set[str]:
    """Tell which of these files a live job reads, a task will read, or a transfer moves.

    Of tasks whose jobs are not all made, those that came ``since`` a time are looked at.
    """
    found = {name for (name,) in reader.rows(_READ, names=list(names))}
    found |= {name for (name,) in reader.rows(_MOVING, names=list(names))}
    return found | (asked_by_tasks(reader, since) & set(names))


def asked_by_tasks(reader: RecordReader, since: float = 0.0) -> set[str]:
    """Read the files that tasks will read whose jobs are not all made yet."""
    return {
        file.identifier
        for task in reader.tasks_from(_UNSPLIT, since=since)
        for file in task.spec.inputs
        if isinstance(file, InputFile)
    }


def _beginning(reader: RecordReader, prefix: str, after: str) -> Iterator[File]:
    """Read files whose identifiers begin with a prefix, by identifier, in pages."""
    while True:
        query = select(files).where(begins(reader.dialect, _f.name, prefix, after))
        page = list(reader.rows(query.order_by(by_character(reader.dialect, _f.name)).limit(PAGE)))
        for name, size, checksum, task, job in page:
            yield File(name=name, size=size, checksum=checksum, task=task, job=job)
        if len(page) < PAGE:
            return
        after = page[-1][0]
