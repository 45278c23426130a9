"""Numbers of jobs by state, from the store's counters."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, func, select

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.states import STATES, Kind
from pilotage.store.database.rows import among
from pilotage.store.jobs.counters import counts

_c = counts.c

Counts = dict[str, dict[Any, int]]
State = TypeVar("State")

_COUNTS = (
    select(_c.first, _c.state, func.sum(_c.count))
    .group_by(_c.first, _c.state)
    .having(func.sum(_c.count) > 0)
    .order_by(_c.first, _c.state)
)


def of_tasks(connection: Connection, tasks: Sequence[str]) -> Counts:
    """Return the jobs of tasks by state."""
    return counted(connection, "job", JOBS_BY_TASK, tasks)


def counted(connection: Connection, kind: Kind, counter: str, names: Iterable[str] | None = None) -> Counts:
    """Return counts by the first column of a counter, then by state."""
    query = _COUNTS.where(_c.counter == counter)
    if names is None:
        return by_name(kind, connection.execute(query))
    return by_name(kind, connection.execute(query.where(among(_c.first, "names")), {"names": list(names)}))


def by_name(kind: Kind, rows: Iterable[Any]) -> Counts:
    """Return rows of name, state and count as counts by name, then by state."""
    counts: Counts = defaultdict(dict)
    for name, state, count in rows:
        counts[name][STATES[kind](state)] = int(count)
    return counts


def of_query(connection: Connection, query: Select[Any], states: Iterable[State]) -> dict[State, int]:
    """Return a query's numbers by state, in the order of ``states``."""
    return in_order({state: int(count) for state, count in connection.execute(query)}, states)


def summed(counts: Counts, states: Iterable[State]) -> dict[State, int]:
    """Return the sums of counts by state, in the order of ``states``."""
    sums = sum((Counter(by_state) for by_state in counts.values()), Counter[Any]())
    return in_order(sums, states)


def in_order(counts: Mapping[Any, int], states: Iterable[State]) -> dict[State, int]:
    """Return counts in the order of ``states``, without zeros."""
    return {state: counts[state] for state in states if counts.get(state)}
