"""How many bytes everybody's tasks take: their specifications, with all parameters, until the archive."""

from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import BigInteger, Column, Connection, String, Table, func, select

from pilotage.model.values.identity import Identity
from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import Dialect, Worded
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among
from pilotage.store.tables.tasks import tasks

task_volumes = Table(
    "task_volumes",
    metadata,
    Column("vo", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("stored", BigInteger, nullable=False),
)

_t, _v = tasks.c, task_volumes.c
_KEY = ("vo", "owner")


class _ByteLength(Worded):
    """The bytes of a text."""

    def words(self, dialect: Dialect, *parts: str) -> str:
        return dialect.byte_length.format(*parts)


_STORED = (
    select(_t.vo, _t.owner, func.sum(_ByteLength(_t.spec)))
    .where(among(_t.id, "ids"))
    .group_by(_t.vo, _t.owner)
)


def count(connection: Connection, bytes_: Mapping[tuple[str, str], int]) -> None:
    """Add what tasks of these VOs and owners take more, or with negative numbers less."""
    rows = [(*whose, stored) for whose, stored in bytes_.items() if stored]
    bulk.add(connection, task_volumes, _KEY, "stored", rows)


def change(connection: Connection, ids: Iterable[int], spec: str) -> None:
    """Count what each of some tasks takes more with this specification instead of its present one."""
    for id_ in ids:
        before = of_tasks(connection, [id_])
        count(connection, {whose: len(spec.encode()) - stored for whose, stored in before.items()})


def of_tasks(connection: Connection, ids: Iterable[int]) -> Counter[tuple[str, str]]:
    """Return the bytes that some tasks take, by VO and owner."""
    rows = connection.execute(_STORED, {"ids": list(ids)})
    return Counter({(vo, owner): int(stored) for vo, owner, stored in rows})


def stored_by(database: Database, owner: Identity) -> int:
    """Return the bytes that a person's tasks take."""
    query = select(_v.stored).where(_v.vo == owner.vo, _v.owner == owner.name)
    return database.read(lambda connection: connection.execute(query).scalar() or 0)
