"""The bytes that people uploaded, for their quotas."""

from sqlalchemy import bindparam, func, select

from pilotage.store.database.engine import Database
from pilotage.store.files.table import IS_UPLOAD, files, replicas

_r = replicas.c
_BYTES = (
    select(func.coalesce(func.sum(files.c.size), 0))
    .select_from(replicas)
    .join(files, files.c.name == _r.file)
    .where(IS_UPLOAD, func.substr(_r.path, 1, bindparam("length")) == bindparam("folder"))
)


def uploaded_bytes(database: Database, folder: str) -> int:
    """Return the bytes of the catalogue's files in a folder of uploads, at all storages."""
    values = {"folder": f"{folder}/", "length": len(folder) + 1}
    return database.read(lambda connection: int(connection.execute(_BYTES, values).scalar_one()))
