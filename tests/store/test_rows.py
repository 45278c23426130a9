"""A query that is asked for again goes to SQLite's driver, with the values of this time."""

from sqlalchemy import Connection, bindparam, select

from pilotage.store import Store
from pilotage.store.database.rows import among, compiled, raw_rows
from pilotage.store.queues.federations import federations
from pilotage.testing.stores import FEDERATION

_VERSION = federations.c.version
AMONG = select(_VERSION).where(among(_VERSION, "versions")).order_by(_VERSION)
LISTED = select(_VERSION).where(_VERSION.in_(bindparam("versions", expanding=True))).order_by(_VERSION)


def test_each_time_has_its_own_values(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    for _ in range(3):
        store.save_federation(FEDERATION, "tester")

    def read(connection: Connection) -> None:
        for query in (AMONG, LISTED):
            for wanted in ([1], [2, 3], [3], [], [1, 2, 3]):
                assert raw_rows(connection, query, versions=wanted) == [(one,) for one in wanted]
        assert compiled(connection, AMONG, {"versions": [2]}) is not None
        assert compiled(connection, LISTED, {"versions": [2]}) is None  # a mark for each

    store.database.read(read)
    store.close()
