"""The records that a decision changes: read and locked once, changed in memory, written once."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, case, null, select

from pilotage.model.documents.decision import Change, Move, Touch
from pilotage.model.records.states import Kind, State
from pilotage.store.database import bulk
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.counters import KEY_COLUMNS
from pilotage.store.records import RECORDS

ID, STATE, ATTEMPT, TASK, CHANGES, SUBMITTER, MEASURED, STARTED, RAN, PILOT, KEYS = range(11)
"""Indexes of a record's parts. ``SUBMITTER`` is the server that is to submit a pilot; None once it
is submitted. ``MEASURED`` is for monitoring. ``STARTED``, ``RAN`` and ``PILOT`` are the start of a job's
attempt, its walltime in s and its pilot, as they were when it was read. The values that count it begin at
``KEYS``."""

_MEASURED: Mapping[Kind, str] = {"job": "created", "pilot": "matched"}

Record = list[Any]

_LOCKED: tuple[Kind, ...] = ("pilot", "task", "transfer", "job", "publication", "notification")
"""Every commit locks in this order, and by number, so no two wait for each other."""


class WorkingSet:
    """Records by kind and number, after the changes applied so far."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._records: dict[Kind, dict[int, Record]] = {kind: {} for kind in _LOCKED}
        self._changed: dict[Kind, dict[int, Mapping[str, Any]]] = {kind: {} for kind in _LOCKED}
        self._entries: dict[Kind, dict[int, str]] = {kind: {} for kind in _LOCKED}

    def load(self, changes: Sequence[Change]) -> None:
        """Read and lock every record that the changes name."""
        named: dict[Kind, set[int]] = defaultdict(set)
        for change in changes:
            if isinstance(change, Move | Touch):
                named[change.kind].update(change.ids)
        for kind in _LOCKED:
            if named[kind]:
                rows = raw_rows(self._connection, _rows(kind), ids=sorted(named[kind]))
                self._records[kind] = {row[ID]: list(row) for row in rows}

    def standing(
        self, kind: Kind, states: tuple[State, ...], ids: Sequence[int], attempts: Sequence[int] | None
    ) -> list[Record]:
        """Return the records that still match a decision, in its order."""
        records = self._records[kind]
        if attempts is None:
            rows = (records.get(id_) for id_ in dict.fromkeys(ids))
            return [row for row in rows if row is not None and row[STATE] in states]
        attempts_by_id = dict(zip(ids, attempts, strict=True))
        pairs = ((records.get(id_), attempt) for id_, attempt in attempts_by_id.items())
        return [
            row
            for row, attempt in pairs
            if row is not None and row[ATTEMPT] == attempt and row[STATE] in states
        ]

    def change_own(
        self, kind: Kind, rows: Iterable[Record], changes: Mapping[int, Mapping[str, Any]]
    ) -> None:
        """Set columns that no counter uses to individual values by id."""
        changed = self._changed[kind]
        for row in rows:
            if row[ID] in changes:
                changed[row[ID]] = {**changed.get(row[ID], {}), **changes[row[ID]]}

    def change(self, kind: Kind, rows: Iterable[Record], values: Mapping[str, Any]) -> None:
        """Set columns of records to the same values."""
        changed = self._changed[kind]
        places = [
            (place, values[name]) for place, name in enumerate(KEY_COLUMNS[kind], KEYS) if name in values
        ]
        # Most records change in the same way and share their new values. The old values are kept, because the
        # id of a deleted object may be reused.
        merged: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        for row in rows:
            before = changed.get(row[ID])
            if before is not None and id(before) not in merged:
                merged[id(before)] = before, {**before, **values}
            changed[row[ID]] = values if before is None else merged[id(before)][1]
            if "state" in values:
                row[STATE] = values["state"]
            if "changes" in values:
                row[CHANGES] = values["changes"]
            if "server" in values and row[SUBMITTER] is not None:
                row[SUBMITTER] = values["server"]
            for place, value in places:
                row[place] = value

    def note(self, kind: Kind, rows: Iterable[Record], entry: Callable[[int], str]) -> None:
        """Append an entry to the history of records, given their attempt."""
        entries = self._entries[kind]
        for row in rows:
            entries[row[ID]] = entries.get(row[ID], "") + entry(row[ATTEMPT])

    def next_attempt(self, kind: Kind, rows: Iterable[Record]) -> None:
        """Add one to the attempts of records."""
        for row in rows:
            row[ATTEMPT] += 1
            changed = self._changed[kind]
            changed[row[ID]] = {**changed.get(row[ID], {}), "attempt": row[ATTEMPT]}

    def write(self, *kinds: Kind) -> None:
        """Write the changes of some kinds or of all.

        One statement writes all records of a kind that change the same columns.
        """
        for kind in kinds or _LOCKED:
            changed, self._changed[kind] = self._changed[kind], {}
            entries, self._entries[kind] = self._entries[kind], {}
            shapes: dict[int, tuple[tuple[str, ...], tuple[Any, ...]]] = {}
            moved: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
            touched: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
            for id_ in sorted(changed):
                values = changed[id_]
                shape = shapes.get(id(values))
                if shape is None:
                    names = tuple(sorted(values))
                    shape = shapes[id(values)] = (names, tuple([values[name] for name in names]))
                if id_ in entries:
                    moved[shape[0]].append((*shape[1], entries[id_], id_))
                else:
                    touched[shape[0]].append((*shape[1], id_))
            for names, rows in moved.items():
                bulk.update(self._connection, RECORDS[kind], names, rows, appended="history")
            for names, rows in touched.items():
                bulk.update(self._connection, RECORDS[kind], names, rows)


@cache
def _rows(kind: Kind) -> Select[Any]:
    """Select records only by number.

    With the state as a condition, a planner may walk through all records in that state.
    """
    columns = RECORDS[kind].c
    keys = [columns[name] for name in KEY_COLUMNS[kind]]
    task: Any = {"task": columns.id, "job": columns.get("task")}.get(kind, null())
    changes: Any = columns.get("changes", null())
    submitter: Any = case((columns.reference == "", columns.server)) if kind == "pilot" else null()
    measured: Any = columns[_MEASURED[kind]] if kind in _MEASURED else null()
    of_attempt = (columns.get(name, null()) for name in ("started", "wall_seconds", "pilot"))
    known = (columns.id, columns.state, columns.attempt, task, changes, submitter, measured, *of_attempt)
    return (
        select(*known, *keys)
        .where(among(columns.id, "ids"))
        .order_by(columns.id)
        .with_for_update(of=RECORDS[kind])
    )
