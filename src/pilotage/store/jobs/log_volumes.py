"""The bytes of each person's logs, and the deletion of the oldest logs.

A pass reads a row for each person and the logs that it deletes, so its cost does not grow with the number of
logs. Processes add the sizes of new logs from time to time. A killed process loses some of them, so all logs
are counted again once a day.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    String,
    Table,
    bindparam,
    delete,
    func,
    select,
    text,
)

from pilotage.model.records.constants import LogConstants
from pilotage.model.records.measurements import KEPT_LOGS
from pilotage.model.values.durations import DAY
from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.engine import Database
from pilotage.store.database.measurements import Sums
from pilotage.store.database.rows import raw_rows
from pilotage.store.jobs.logs import log_readers, logs
from pilotage.store.servers import iterations

log_volumes = Table(
    "log_volumes",
    metadata,
    Column("vo", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("stored", BigInteger, nullable=False),
)

MEGABYTE = 1_000_000
BATCH = 2000
"""Most logs that a transaction deletes, except logs of the same time: others write in between."""

MOST_BATCHES = 50
"""Most batches of one call."""

MOST_PEOPLE = 200
"""Most people in a transaction that compares logs by age: the people with the oldest logs."""

COUNTED = "count-logs"
"""The name of the stored time of the last count of all logs."""

_l, _v = logs.c, log_volumes.c
_KEY = ("vo", "owner")
_LIMIT: Any = bindparam("limit", type_=None)
_OLDEST = select(func.min(_l.time)).where(_l.vo == _v.vo, _l.owner == _v.owner).scalar_subquery()
_VOLUMES = select(_v.vo, _v.owner, _v.stored, _OLDEST)
# Other servers add volumes during this, also of people without a log before.
_COUNT = text(
    "INSERT INTO log_volumes (vo, owner, stored) SELECT vo, owner, sum(stored) FROM logs WHERE true "
    "GROUP BY vo, owner ON CONFLICT (vo, owner) DO UPDATE SET stored = excluded.stored"
)
_IS_THEIRS = (_l.vo == bindparam("of_vo"), _l.owner == bindparam("of_owner"))
_FIRST = (
    select(_l.time, _l.stored)
    .where(*_IS_THEIRS, _l.time < bindparam("before"))
    .order_by(_l.time)
    .limit(_LIMIT)
)
_SILENT = delete(log_readers).where(log_readers.c.until < bindparam("time"))
_DELETE = delete(logs).where(*_IS_THEIRS, _l.time <= bindparam("until")).returning(_l.stored)


class Person(NamedTuple):
    """The owner of logs."""

    vo: str
    name: str


class Volume(NamedTuple):
    """The bytes of a person's logs, and the time of the oldest one in s since 1970 UTC."""

    stored: int
    oldest: float


class LogRetention:
    """Deletes logs that are too old or too many."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prune(self, time: float, bounds: LogConstants) -> None:
        """Delete logs older than the retention, then the oldest logs beyond the limits.

        One call deletes a bounded number; the next one deletes more.
        """

        def begin(connection: Connection) -> None:
            connection.execute(_SILENT, {"time": time})
            count_again(connection, time)

        self._database.write(begin)
        for _ in range(MOST_BATCHES):
            if not self._database.write(lambda connection: delete_some(connection, time, bounds)):
                break


def add(connection: Connection, sums: Sums) -> None:
    """Add the sizes of a process's new logs to the volumes in the store."""
    rows = [(*key.labels, int(value)) for key, value in sums.items() if key.name == KEPT_LOGS.name]
    bulk.add(connection, log_volumes, _KEY, "stored", rows)


def count_again(connection: Connection, time: float) -> None:
    """Count all logs, unless that was done within a day."""
    if (iterations.last(connection, COUNTED) or -inf) > time - DAY:
        return
    connection.execute(delete(log_volumes))
    connection.execute(_COUNT)
    iterations.note(connection, COUNTED, time)


def delete_some(connection: Connection, time: float, bounds: LogConstants) -> bool:
    """Delete some of the logs that must go. Return whether more are left.

    These are logs older than the retention, and the oldest logs if a person, a VO or all exceed their limit.
    """
    volumes = {
        Person(vo, owner): Volume(int(stored), inf if oldest is None else oldest)
        for vo, owner, stored, oldest in raw_rows(connection, _VOLUMES)
    }
    before = time - bounds.retention
    old = [person for person, volume in volumes.items() if volume.oldest < before]
    if old:
        return _delete_oldest(connection, volumes, old, inf, before)
    for people, limit in _groups(volumes, bounds):
        surplus = sum(volumes[person].stored for person in people) - limit * MEGABYTE
        if surplus > 0 and _delete_oldest(connection, volumes, people, surplus):
            return True
    return False


def _groups(
    volumes: Mapping[Person, Volume], bounds: LogConstants
) -> Sequence[tuple[Sequence[Person], float]]:
    """Return the groups of people that share a limit, in MB: each person, each VO, and all."""
    by_vo: dict[str, list[Person]] = {}
    for person in volumes:
        by_vo.setdefault(person.vo, []).append(person)
    return [
        *(([person], bounds.by_user) for person in volumes),
        *((people, bounds.by_vo) for people in by_vo.values()),
        (list(volumes), bounds.total),
    ]


def _delete_oldest(
    connection: Connection,
    volumes: Mapping[Person, Volume],
    people: Sequence[Person],
    surplus: float,
    before: float = inf,
) -> bool:
    """Delete a batch of the oldest logs ``before`` a time, until ``surplus`` bytes have gone.

    Return whether it deleted any: then there may be more.
    """
    ordered = sorted(people, key=lambda person: volumes[person].oldest)
    oldest, rest = ordered[:MOST_PEOPLE], ordered[MOST_PEOPLE:]
    # Delete no log that is newer than the oldest log of a person who is not read here.
    horizon = min((volumes[person].oldest for person in rest), default=inf)
    each = BATCH // len(oldest) + 1
    logs: list[tuple[float, Person, int]] = []
    for person in oldest:
        values = {"of_vo": person.vo, "of_owner": person.name, "before": before, "limit": each}
        rows = raw_rows(connection, _FIRST, **values)
        logs += [(at, person, int(stored)) for at, stored in rows]
        if len(rows) == each:
            horizon = min(horizon, rows[-1][0])
    until: dict[Person, float] = {}
    for at, person, stored in sorted(logs):
        if surplus <= 0 or at > horizon:
            break
        until[person] = at
        surplus -= stored
    gone = [(*person, -_delete_until(connection, person, at)) for person, at in until.items()]
    bulk.add(connection, log_volumes, _KEY, "stored", gone)
    return any(stored for *_, stored in gone)


def _delete_until(connection: Connection, person: Person, until: float) -> int:
    """Delete a person's logs up to a time. Return their bytes."""
    values = {"of_vo": person.vo, "of_owner": person.name, "until": until}
    return sum(stored for (stored,) in connection.execute(_DELETE, values))
