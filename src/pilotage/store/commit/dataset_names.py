"""Names of datasets that tasks hold for their outputs: only one task at a time may have a name."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from pilotage.store.database.errors import DatasetTaken
from pilotage.store.database.rows import among
from pilotage.store.files.publications import holds_dataset
from pilotage.store.tasks.table import tasks

_TAKEN = (
    select(tasks.c.output_dataset, tasks.c.id)
    .where(tasks.c.output_dataset.is_not(None), among(tasks.c.output_dataset, "names"), holds_dataset)
    .where(~among(tasks.c.id, "besides"))
    .order_by(tasks.c.id)
)
_OF_TASKS = select(tasks.c.output_dataset).where(
    among(tasks.c.id, "ids"), tasks.c.output_dataset.is_not(None)
)


def refuse_taken(connection: Connection, names: Sequence[str], besides: Sequence[int] = ()) -> None:
    """Raise DatasetTaken if a task holds one of these names. Ignore the tasks in ``besides``."""
    values = {"names": names, "besides": besides}
    conflict = connection.execute(_TAKEN, values).first() if names else None
    if conflict is not None:
        raise DatasetTaken(*conflict)


def refuse_retaken(connection: Connection, ids: Sequence[int]) -> None:
    """Raise DatasetTaken if another task took the dataset's name of an ended task that resumes."""
    refuse_taken(connection, list(connection.execute(_OF_TASKS, {"ids": ids}).scalars()), ids)
