"""Files that are described otherwise than they are known."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from pilotage.model.records.work import File
from pilotage.store.database.errors import FileConflict
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.table import FILE_COLUMNS, file, files

_KNOWN_FILES = select(*FILE_COLUMNS).where(among(files.c.name, "names"))


def conflicts(connection: Connection, given: Sequence[File]) -> Iterator[tuple[int, FileConflict]]:
    """Yield the files that contradict known or earlier ones, by index."""
    known = known_files(connection, [one.name for one in given])
    for at, one in enumerate(given):
        try:
            replaces(one, known.setdefault(one.name, one))
        except FileConflict as conflict:
            yield at, conflict


def known_files(connection: Connection, names: list[str]) -> dict[str, File]:
    """Return the files that are known, by name."""
    found = raw_rows(connection, _KNOWN_FILES, names=names)
    return {row[0]: file(row) for row in found}


def replaces(new: File, known: File) -> bool:
    """Return whether a file replaces the known one with its name.

    A job's output always does, because it belongs to a newer attempt. An input must be the same, or add an
    unknown checksum. Anything else raises ``FileConflict``.
    """
    if new.job is not None:
        return new != known
    same = known.checksum == new.checksum or not known.checksum or not new.checksum
    if new.size != known.size or not same:
        raise FileConflict(new.name, (known.size, known.checksum), (new.size, new.checksum))
    return bool(new.checksum) and not known.checksum and known.job is None
