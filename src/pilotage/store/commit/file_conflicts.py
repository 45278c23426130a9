"""Files that are described otherwise than they are known."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from pilotage.model.records.work import File
from pilotage.store.database.errors import FileConflict
from pilotage.store.database.sets import among, raw_rows
from pilotage.store.tables.files import FILE_COLUMNS, files

FILE_NAMES = ("name", "size", "checksum", "task", "job")
"""The columns of a file that a description tells."""

_KNOWN_FILES = select(*FILE_COLUMNS).where(among(files.c.name, "names"))


def conflicts(connection: Connection, given: Sequence[File]) -> Iterator[tuple[int, FileConflict]]:
    """Yield the files that contradict known or earlier ones, by index."""
    known = known_files(connection, [file.name for file in given])
    for at, file in enumerate(given):
        try:
            replaces(file, known.setdefault(file.name, file))
        except FileConflict as conflict:
            yield at, conflict


def known_files(connection: Connection, names: list[str]) -> dict[str, File]:
    """Return the files that are known, by name."""
    found = raw_rows(connection, _KNOWN_FILES, names=names)
    return {row[0]: File(**dict(zip(FILE_NAMES, row, strict=True))) for row in found}


def replaces(file: File, known: File) -> bool:
    """Return whether a file replaces the known one with its name.

    A job's output always does, because it belongs to a newer attempt. An input must be the same, or add an
    unknown checksum. Anything else raises :class:`FileConflict`.
    """
    if file.job is not None:
        return file != known
    same = known.checksum == file.checksum or not known.checksum or not file.checksum
    if file.size != known.size or not same:
        raise FileConflict(file.name, (known.size, known.checksum), (file.size, file.checksum))
    return bool(file.checksum) and not known.checksum and known.job is None
