"""The numbers of records. Each is used once, even if the record with the last one is deleted."""

from sqlalchemy import Column, Connection, String, Table, bindparam, select

from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata
from pilotage.store.database.rows import raw_rows

numbers = Table(
    "numbers",
    metadata,
    Column("kind", String, primary_key=True),
    Column("last", Id, nullable=False),
)

_LAST = select(numbers.c.last).where(numbers.c.kind == bindparam("kind"))


class Numbers:
    """Takes numbers for one commit.

    There is no need for a sequence: only one commit creates records at a time.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._first: dict[str, int] = {}
        self._next: dict[str, int] = {}

    def take(self, kind: str, count: int) -> range:
        """Return the next numbers of a kind."""
        if not count:
            return range(0)
        if kind not in self._next:
            ((last,),) = raw_rows(self._connection, _LAST, kind=kind) or ((0,),)
            self._first[kind] = self._next[kind] = last + 1
        first = self._next[kind]
        self._next[kind] += count
        return range(first, first + count)

    def write(self) -> None:
        """Store the last used numbers."""
        # As differences: the same statement inserts a missing row.
        used = [(kind, self._next[kind] - first) for kind, first in self._first.items()]
        bulk.add(self._connection, numbers, ("kind",), "last", used)
