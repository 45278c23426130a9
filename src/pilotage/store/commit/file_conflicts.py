"""Refuse new files that contradict the catalogue, and dataset names that another task has."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from pilotage.model.records.work import File
from pilotage.store.database.errors import DatasetTaken, FileConflict
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.publications import holds_dataset
from pilotage.store.files.table import FILE_COLUMNS, file, files
from pilotage.store.tasks.table import tasks

_KNOWN_FILES = select(*FILE_COLUMNS).where(among(files.c.name, "names"))


def conflicts(connection: Connection, new_files: Sequence[File]) -> Iterator[tuple[int, FileConflict]]:
    """Yield the files that contradict known or earlier ones, by index."""
    files_by_name = known_files(connection, [new.name for new in new_files])
    for at, new in enumerate(new_files):
        try:
            replaces(new, files_by_name.setdefault(new.name, new))
        except FileConflict as conflict:
            yield at, conflict


def known_files(connection: Connection, names: list[str]) -> dict[str, File]:
    """Return the files that are known, by name."""
    rows = raw_rows(connection, _KNOWN_FILES, names=names)
    return {row[0]: file(row) for row in rows}


def replaces(new: File, old: File) -> bool:
    """Return whether a file replaces the known one with its name.

    A job's output always does, because it belongs to a newer attempt. An input must be the same, or add an
    unknown checksum. Anything else raises ``FileConflict``.
    """
    if new.job is not None:
        return new != old
    same = old.checksum == new.checksum or not old.checksum or not new.checksum
    if new.size != old.size or not same:
        raise FileConflict(new.name, (old.size, old.checksum), (new.size, new.checksum))
    return bool(new.checksum) and not old.checksum and old.job is None


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
