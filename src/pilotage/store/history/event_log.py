"""The log of events for its readers: pages in the order of commits, and where the log ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

from cachetools import LRUCache
from sqlalchemy import Connection, bindparam, select

from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.history.events import FORGOTTEN, NO_TASK, SEQUENCE, EventKind, events, unpacked
from pilotage.store.history.history import KNOWN_MEANINGS, TransitionKind, Unknown, meanings, unknown
from pilotage.store.history.numbers import numbers
from pilotage.store.history.settled_numbers import SettledNumbers
from pilotage.store.tasks.table import tasks

KNOWN_TASKS = 20_000
"""Most tasks with a cached owner."""

_Value = TypeVar("_Value")

_e, _m, _t, _n = events.c, meanings.c, tasks.c, numbers.c
_PAGE = (
    select(_e.id, _e.time, _e.meaning, _e.task, _e.records)
    .where(_e.id > bindparam("after"), _e.id <= bindparam("last"))
    .order_by(_e.id)
    .limit(bindparam("most"))
)
_FORGOTTEN = select(_n.last).where(_n.kind == FORGOTTEN)
_MEANINGS = select(_m.id, *(_m[name] for name in TransitionKind._fields)).where(among(_m.id, "ids"))
_OWNERS = select(_t.id, _t.owner, _t.vo).where(among(_t.id, "ids"))
_OWNED = select(_t.id, _t.owner, _t.vo, _t.workflow).where(among(_t.id, "ids"))


class TaskOwner(NamedTuple):
    """The owner and the workflow of a task."""

    task: int
    owner: str
    vo: str
    workflow: int | None


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One transition of records of a task, or of records without a task.

    ``time`` is in s since 1970 UTC. ``owner`` and ``vo`` belong to the task; empty without one.
    """

    id: int
    time: float
    kind: EventKind | Unknown
    task: int
    source: str
    target: str
    cause: str
    actor: str
    records: tuple[int, ...]
    owner: str = ""
    vo: str = ""


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of the log: the last deleted event, and the newest event. 0 if there is none."""

    forgotten: int
    newest: int


class EventLog(SettledNumbers):
    """Reads events. After an event was read, none appears before it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, _e.id, SEQUENCE)
        self._meanings: LRUCache[int, TransitionKind] = LRUCache(KNOWN_MEANINGS)
        self._owners: LRUCache[int, tuple[str, str]] = LRUCache(KNOWN_TASKS)

    def ends(self) -> Ends:
        """Return the ends of the log. Everything after the last deleted event can be read."""
        newest = self.newest()
        return Ends(self._database.read(_forgotten), newest)

    def page(self, after: int, last: int, limit: int) -> list[LoggedEvent]:
        """Return the first events after one, up to ``last``, which ``newest`` must have returned."""

        def read(connection: Connection) -> list[LoggedEvent]:
            rows = raw_rows(connection, _PAGE, after=after, last=last, most=limit)
            names = self._learn(connection, rows)
            return [_event(row, *names) for row in rows]

        return self._database.read(read)

    def owners(self, tasks: Sequence[int]) -> dict[int, TaskOwner]:
        """Return the owners of the tasks that exist."""
        rows = self._database.read(lambda connection: raw_rows(connection, _OWNED, ids=sorted(tasks)))
        return {row[0]: TaskOwner(*row) for row in rows}

    def _learn(
        self, connection: Connection, rows: Sequence[Sequence[int]]
    ) -> tuple[dict[int, TransitionKind], dict[int, tuple[str, str]]]:
        """Return the meanings of these events, and the owners of their tasks. Neither ever changes.

        Collect them here: other readers may push some out of the cache.
        """
        with self._lock:
            kinds, strange = _from_cache(self._meanings, {row[2] for row in rows})
            for id_, *words in raw_rows(connection, _MEANINGS, ids=sorted(strange)) if strange else ():
                kinds[id_] = self._meanings[id_] = TransitionKind(*words)
            owners, strange = _from_cache(self._owners, {row[3] for row in rows} - {NO_TASK})
            for id_, owner, vo in raw_rows(connection, _OWNERS, ids=sorted(strange)) if strange else ():
                owners[id_] = self._owners[id_] = owner, vo
            return kinds, owners


def _from_cache(cache: LRUCache[int, _Value], ids: set[int]) -> tuple[dict[int, _Value], set[int]]:
    """Return the values that a cache has for these numbers, and the numbers that it lacks."""
    cached = {id_: cache[id_] for id_ in ids if id_ in cache}
    return cached, ids - cached.keys()


def _event(
    row: Sequence[int | float | str],
    kinds: Mapping[int, TransitionKind],
    owners: Mapping[int, tuple[str, str]],
) -> LoggedEvent:
    id_, when, meaning, task, records = row
    kind, source, target, cause, actor = kinds.get(int(meaning)) or unknown(int(meaning))
    # An archived task has no owner here.
    owner, vo = owners.get(int(task), ("", ""))
    return LoggedEvent(
        id=int(id_),
        time=float(when),
        kind=cast(EventKind | Unknown, kind),
        task=int(task),
        source=source,
        target=target,
        cause=cause,
        actor=actor.removesuffix(":"),
        records=tuple(unpacked(str(records))),
        owner=owner,
        vo=vo,
    )


def _forgotten(connection: Connection) -> int:
    rows = raw_rows(connection, _FORGOTTEN)
    return int(rows[0][0]) if rows else 0
