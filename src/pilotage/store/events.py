"""Every change of state leaves an event: which record, from what to what, when, why and by whom."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, bindparam, insert, null, select
from sqlalchemy.sql import literal

from pilotage.model.states import Kind, State

from .sets import among
from .tables import RECORDS, events, jobs, tasks

_COLUMNS = ["kind", "record", "task", "attempt", "source", "target", "time", "cause", "actor", "decision"]
_ROW = [bindparam(f"the_{name}", type_=events.c[name].type) for name in _COLUMNS[4:]]


Transit = tuple[Sequence[int], State | None, State, str, int | None]
"""Ids, the state they leave, the state they come into, the cause, and the decision's number."""


@cache
def _moved(kind: Kind) -> Insert:
    """One statement for any number of records of a kind; taken before they move, for their attempt."""
    table = RECORDS[kind]
    task: Any = {"task": tasks.c.id, "job": jobs.c.task}.get(kind, null())
    rows = select(literal(kind), table.c.id, task, table.c.attempt, *_ROW).where(among(table.c.id, "ids"))
    return insert(events).from_select(_COLUMNS, rows)


class Events:
    """Writes the events of one commit."""

    def __init__(self, connection: Connection, time: float, actor: str) -> None:
        self._connection = connection
        self._common = {"the_time": time, "the_actor": actor}

    def created(self, kind: Kind, ids: Iterable[int], state: State, cause: str) -> None:
        """Records that are already there came into being."""
        self._write(kind, [(list(ids), None, state, cause, None)])

    def moved(self, kind: Kind, moves: Sequence[Transit]) -> None:
        """Records are about to move."""
        self._write(kind, moves)

    def _write(self, kind: Kind, moves: Sequence[Transit]) -> None:
        values: list[Mapping[str, object]] = [
            {
                "ids": ids,
                "the_source": None if source is None else str(source),
                "the_target": str(target),
                "the_cause": cause,
                "the_decision": decision,
                **self._common,
            }
            for ids, source, target, cause, decision in moves
        ]
        self._connection.execute(_moved(kind), values)
