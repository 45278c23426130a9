"""Outputs to register in catalogues: table, reads for the step, and views."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Index, String, bindparam, func, or_, select, text

from pilotage.model.records.publications import Publication, PublicationCount, PublishedDataset
from pilotage.model.records.states import LIVE_PUBLICATIONS, PublicationState, TaskState
from pilotage.model.records.work import File
from pilotage.model.values.scopes import PERSONAL
from pilotage.store.database.columns import is_state, partial_index
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import maker, read_columns, record_table
from pilotage.store.files.table import results
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import is_live, tasks
from pilotage.store.worlds.parts import Reading, WorldPart, part

publications = record_table(
    "publications",
    Publication,
    Column("catalogue", String, nullable=False),
    Index("publications_by_task", "task", "state", "id"),
    Index("publications_by_file", "file"),
    Index("publications_by_state", "state", "since", "id"),
)

_p, _t = publications.c, tasks.c
_WAITS = is_state(publications, PublicationState.WAITING)

partial_index("publications_due", _p.catalogue, _p.wake_at, _p.id, condition=_WAITS)
partial_index("publications_under_way", _p.id, condition=is_state(publications, PublicationState.PUBLISHING))

PUBLICATION_COLUMNS = read_columns(publications, Publication)
publication = maker(Publication)
"""Makes a publication of a row that begins with ``PUBLICATION_COLUMNS``."""

# Not LIKE for the beginning: SQLite's ignores case.
_IS_EXTERNAL = _t.output_dataset.contains("~") & (
    func.substr(_t.output_dataset, 1, len(PERSONAL)) != PERSONAL
)
_HAS_PUBLISHED = select(_p.id).where(_p.task == _t.id).correlate(tasks).exists()

holds_dataset = is_live | (_IS_EXTERNAL & (is_state(tasks, TaskState.FINISHED) | _HAS_PUBLISHED))
"""Whether a task holds the name of its dataset. One of an external catalogue has no versions: a task that has
outputs there keeps it, or the files of two tasks would be mixed."""


MOST_DUE = 5000
"""Most publications of one catalogue in a pass."""

_sibling = publications.alias("sibling")
_LIVE_FILE = select(_sibling.c.id).where(
    _sibling.c.task == _p.task,
    or_(*(_sibling.c.state == str(state) for state in LIVE_PUBLICATIONS)),
    _sibling.c.file != "",
)
_DUE = (
    select(*PUBLICATION_COLUMNS)
    .where(_WAITS, _p.catalogue == bindparam("catalogue"), _p.wake_at <= bindparam("time"))
    .where(or_(_p.file != "", ~_LIVE_FILE.exists()))
    .order_by(_p.wake_at, _p.id)
    .limit(MOST_DUE)
)
# Step from catalogue to catalogue, skipping everything that waits for one.
_WAITING_FOR = f"SELECT min(catalogue) FROM publications WHERE state = '{PublicationState.WAITING}'"
_CATALOGUES = text(f"""
WITH RECURSIVE catalogues (name) AS (
  {_WAITING_FOR}
  UNION ALL
  SELECT ({_WAITING_FOR} AND catalogue > catalogues.name)
  FROM catalogues WHERE catalogues.name IS NOT NULL
) SELECT name FROM catalogues WHERE name IS NOT NULL""")
_UNDER_WAY = (
    select(*PUBLICATION_COLUMNS).where(is_state(publications, PublicationState.PUBLISHING)).order_by(_p.id)
)
_OF_TASK = (
    select(*PUBLICATION_COLUMNS)
    .where(_p.task == bindparam("task"), _p.state == bindparam("state"))
    .order_by(_p.id)
    .limit(MOST_DUE)
)


@part("publications", "files")
def to_register(reading: Reading) -> Mapping[str, Any]:
    """Read due publications of each catalogue, those in progress, and failed ones of datasets to close."""
    reader = reading.reader
    waiting = [publication(row) for row in _due_rows(reader, reading.world.time)]
    closing = sorted({record.task for record in waiting if not record.file})
    under_way = [publication(row) for row in reader.raw_rows(_UNDER_WAY)]
    failed = [lost for task in closing for lost in _failed(reader, task)]
    by_id = {record.id: record for record in (*waiting, *under_way, *failed)}
    return {
        "publications": tuple(by_id[id_] for id_ in sorted(by_id)),
        "files": reader.files({record.file for record in waiting if record.file}),
    }


def failed_of(task: int) -> WorldPart:
    """Read the failed publications of a task, at most ``MOST_DUE``."""
    return WorldPart(("publications",), lambda reading: {"publications": _failed(reading.reader, task)})


def _failed(reader: RecordReader, task: int) -> tuple[Publication, ...]:
    rows = reader.raw_rows(_OF_TASK, task=task, state=str(PublicationState.FAILED))
    return tuple(map(publication, rows))


def _due_rows(reader: RecordReader, time: float) -> Iterator[Sequence[Any]]:
    # Read each catalogue separately: publications for a dead one must not fill the others' pass.
    for (name,) in reader.raw_rows(_CATALOGUES):
        yield from reader.raw_rows(_DUE, time=time, catalogue=name)


_BY_STATE = (
    select(_p.state, func.count(), func.max(_p.error), func.min(_p.wake_at))
    .where(_p.task == bindparam("task"), _p.file != "")
    .group_by(_p.state)
)
_OF_FILE = select(*PUBLICATION_COLUMNS).where(_p.file == bindparam("file")).order_by(_p.id)
_CLOSING = select(*PUBLICATION_COLUMNS).where(_p.task == bindparam("task"), _p.file == "")
_GATHERED = select(func.min(_t.id)).where(
    _t.output_dataset == bindparam("dataset"),
    _t.output_dataset.is_not(None),
    holds_dataset,
    _t.id != bindparam("besides"),
)


class PublicationQueries:
    """Reads publications, each answer at one moment."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_task(self, task: int) -> PublishedDataset:
        """Return the progress of registering a task's outputs."""

        def read(connection: Connection) -> PublishedDataset:
            rows = connection.execute(_BY_STATE, {"task": task}).all()
            closing = connection.execute(_CLOSING, {"task": task}).first()
            return PublishedDataset(
                files={
                    PublicationState(state): PublicationCount(files=count, error=error, wake_at=wake_at)
                    for state, count, error, wake_at in rows
                },
                closing=publication(closing) if closing else None,
            )

        return self._database.read(read)

    def results(self, task: int) -> list[File]:
        """Return the outputs of a task's successful jobs; only the merge job's if there was one."""
        return self._database.read(lambda connection: results(connection, task))

    def of_file(self, file: str) -> list[Publication]:
        """Return the publications of a file, by its identifier."""
        return self._database.read(
            lambda connection: [publication(row) for row in connection.execute(_OF_FILE, {"file": file})]
        )

    def task_of(self, dataset: str, besides: int = 0) -> int | None:
        """Return the task that holds the name of a dataset, other than ``besides``; None if none does."""
        return self._database.read(
            lambda connection: connection.execute(
                _GATHERED, {"dataset": dataset, "besides": besides}
            ).scalar()
        )
