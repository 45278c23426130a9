"""People who were closed. A request that was under way with a revoked token starts nothing for them."""

from collections.abc import Iterable

from sqlalchemy import Column, Connection, Double, String, Table, bindparam, delete, insert, select, tuple_

from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import metadata
from pilotage.store.database.errors import PersonClosed
from pilotage.store.database.rows import among
from pilotage.store.tables.tasks import tasks

closed_people = Table(
    "closed_people",
    metadata,
    Column("owner", String, primary_key=True),
    Column("vo", String, primary_key=True),
    Column("closed", Double, nullable=False),
)

_c = closed_people.c
_ONE = (_c.owner == bindparam("name"), _c.vo == bindparam("of_vo"))
_OPEN = delete(closed_people).where(*_ONE)
_CLOSED = select(_c.owner, _c.vo).where(*_ONE)
_OF_TASKS = select(tasks.c.owner, tasks.c.vo).where(
    among(tasks.c.id, "ids"), tuple_(tasks.c.owner, tasks.c.vo).in_(select(_c.owner, _c.vo))
)


def close(connection: Connection, person: Identity, time: float) -> None:
    """Note that a person is closed since a time in s since 1970 UTC."""
    reopen(connection, [person])
    connection.execute(insert(closed_people), {"owner": person.name, "vo": person.vo, "closed": time})


def reopen(connection: Connection, people: Iterable[Identity]) -> None:
    """Let closed people work again."""
    if values := [{"name": one.name, "of_vo": one.vo} for one in people]:
        connection.execute(_OPEN, values)


def refuse_closed(connection: Connection, owners: Iterable[Identity]) -> None:
    """Raise PersonClosed if one of the owners of new work or settings is closed."""
    for name, vo in sorted({(one.name, one.vo) for one in owners}):
        if connection.execute(_CLOSED, {"name": name, "of_vo": vo}).first():
            raise PersonClosed(name, vo)


def refuse_tasks_of_closed(connection: Connection, ids: Iterable[int]) -> None:
    """Raise PersonClosed if ended tasks that go on are of a closed person."""
    if found := connection.execute(_OF_TASKS, {"ids": list(ids)}).first():
        raise PersonClosed(*found)
