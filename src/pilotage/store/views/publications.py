"""Publications for people: a task's by state, a file's, and the owner of a dataset."""

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.records.publications import Publication, PublicationCount, PublishedDataset
from pilotage.model.records.states import PublicationState
from pilotage.model.records.work import File
from pilotage.store.database.engine import Database
from pilotage.store.tables.publications import PUBLICATION_COLUMNS, holds_dataset, publication, publications
from pilotage.store.tables.results import results
from pilotage.store.tables.tasks import tasks

_p, _t = publications.c, tasks.c
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
        """Return the task that holds the name of a dataset, ``besides`` one; None: no task."""
        return self._database.read(
            lambda connection: connection.execute(
                _GATHERED, {"dataset": dataset, "besides": besides}
            ).scalar()
        )
