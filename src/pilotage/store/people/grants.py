"""Grants of people to read their work: table, giving, revoking, and the present readers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    ScalarSelect,
    String,
    Table,
    and_,
    cast,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    tuple_,
)

from pilotage.model.records.grants import GrantKind, WorkGrant
from pilotage.model.values.identity import Identity, Owners, WholeVo
from pilotage.store.database.columns import is_of, metadata
from pilotage.store.database.engine import Database
from pilotage.store.database.keyset import ListPage, cut, text_cursor, texts_of
from pilotage.store.files.datasets import dataset_files
from pilotage.store.people.tokens import refuse_closed
from pilotage.store.tasks.table import tasks
from pilotage.store.tasks.workflows import workflows

grants = Table(
    "grants",
    metadata,
    Column("kind", String, primary_key=True),
    Column("record", String, primary_key=True),
    Column("person", String, primary_key=True),
    Column("group", String, primary_key=True),
    Column("vo", String, primary_key=True),
    Column("by", String, nullable=False),
    Column("by_vo", String, nullable=False),
    Column("made", Double, nullable=False),
    Column("manages", Boolean, nullable=False),
    Column("until", Double),
    Index("grants_by_reader", "vo", "person", "group"),
    Index("grants_by_giver", "by_vo", "by"),
)

MOST_OF_PERSON = 1000
"""Most grants that a person may have given."""

MOST_TASKS = 10_000
"""Most tasks of others that a list shows a person, the newest ones."""

_g, _t, _m = grants.c, tasks.c, dataset_files.c

_OWNED: Mapping[GrantKind, Table] = {"task": tasks, "workflow": workflows}

Ground = tuple[GrantKind, str]
"""What a grant may be of: a kind, and a number or the identifier of a dataset."""


class Grants:
    """Keeps grants. ``clock`` returns the time in s since 1970 UTC."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def put(self, grant: WorkGrant) -> bool:
        """Give a grant, in place of an earlier one to the same reader. Return False beyond the bound.

        Raises PersonClosed if its giver is closed.
        """
        row = {column.name: getattr(grant, column.name) for column in grants.c}
        mine = (_g.by == grant.by, _g.by_vo == grant.by_vo)

        def write(connection: Connection) -> bool:
            refuse_closed(connection, [Identity(name=grant.by, vo=grant.by_vo)])
            connection.execute(delete(grants).where(_g.until <= self._clock()))
            connection.execute(delete(grants).where(*_is_same(grant)))
            if connection.execute(select(func.count()).where(*mine)).scalar_one() >= MOST_OF_PERSON:
                return False
            connection.execute(insert(grants), row)
            return True

        return self._database.write(write)

    def revoke(self, grant: WorkGrant) -> bool:
        """End a grant to a reader. Return whether there was one."""
        query = delete(grants).where(*_is_same(grant))
        return bool(self._database.write(lambda connection: connection.execute(query).rowcount))

    def of(self, *grounds: Ground) -> list[WorkGrant]:
        """Return the grants of a record that are in force."""
        return self._listed(_is_of(grounds))

    def page(self, owners: Owners, limit: int, after: str = "") -> ListPage[WorkGrant]:
        """Return a page of the grants that a person gave or may read by, or those of a VO's people.

        Raises ``BadCursor``.
        """
        conditions = [self._in_force()]
        if owners is not None:
            reads = _g.vo == owners.vo if isinstance(owners, WholeVo) else _reads(owners)
            conditions.append(or_(and_(*is_of(owners, _g.by, _g.by_vo)), reads))
        key = [*grants.primary_key]
        begin = [tuple_(*key) > tuple_(*texts_of(after, len(key)))] if after else []
        query = select(grants).where(*conditions, *begin).order_by(*key).limit(limit + 1)

        def read(connection: Connection) -> ListPage[WorkGrant]:
            total = connection.scalar(select(func.count()).select_from(grants).where(*conditions))
            listed = [WorkGrant(**row._mapping) for row in connection.execute(query)]
            rows, following = cut(
                listed, limit, lambda row: text_cursor(*(getattr(row, c.name) for c in key))
            )
            return ListPage(rows, total or 0, {}, following)

        return self._database.read(read)

    def covers(self, person: Identity, *grounds: Ground, manages: bool = False) -> bool:
        """Return whether a person may read, or change, a record by one of its grounds."""
        managing = [_g.manages.is_(True)] if manages else []
        return self._is_any(_reads(person), _is_of(grounds), *managing)

    def covers_file(self, person: Identity, file: str, task: int | None) -> bool:
        """Return whether a person may read a file: as the output of a task, or in a dataset."""
        in_dataset = select(_m.file).where(_m.dataset == _g.record, _m.file == file).correlate(grants)
        grounds: list[ColumnElement[bool]] = [and_(_g.kind == "dataset", in_dataset.exists())]
        if task is not None:
            workflow = select(cast(_t.workflow, String)).where(_t.id == task).scalar_subquery()
            grounds.append(_is_of([("task", str(task))]))
            grounds.append(and_(_g.kind == "workflow", _g.record == workflow))
        return self._is_any(_reads(person), or_(*grounds))

    def tasks(self, person: Identity) -> Sequence[int]:
        """Return the tasks of others that a person may read, newest first."""
        readable = select(_g.kind, _g.record).where(_reads(person), self._in_force())

        def read(connection: Connection) -> Sequence[int]:
            granted: dict[str, list[str]] = {kind: [] for kind in get_args(GrantKind)}
            for kind, record in connection.execute(readable):
                granted[kind].append(record)
            tasks_granted, workflows_granted = (map(int, granted[kind]) for kind in ("task", "workflow"))
            is_own = and_(_t.owner == person.name, _t.vo == person.vo)
            in_groups = [
                and_(_t.vo == vo, _t.group == group, not_(is_own))
                for vo, _, group in (name.partition(":") for name in granted["group"])
            ]
            query = select(_t.id).where(
                or_(_t.id.in_(tasks_granted), _t.workflow.in_(workflows_granted), *in_groups)
            )
            return connection.execute(query.order_by(_t.id.desc()).limit(MOST_TASKS)).scalars().all()

        return self._database.read(read)

    def _is_any(self, *conditions: ColumnElement[bool]) -> bool:
        query = select(_g.kind).where(*conditions, self._in_force()).limit(1)
        return self._database.read(lambda connection: connection.execute(query).first()) is not None

    def _listed(self, *conditions: ColumnElement[bool]) -> list[WorkGrant]:
        query = select(grants).where(*conditions, self._in_force()).order_by(*grants.primary_key)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [WorkGrant(**row._mapping) for row in rows]

    def _in_force(self) -> ColumnElement[bool]:
        return or_(_g.until.is_(None), _g.until > self._clock())


def forget(connection: Connection, kind: GrantKind, records: Iterable[str]) -> None:
    """Delete the grants of records that are gone: another one may get the name of a dataset."""
    connection.execute(delete(grants).where(_g.kind == kind, _g.record.in_(list(records))))


def _is_same(grant: WorkGrant) -> list[ColumnElement[bool]]:
    return [column == getattr(grant, column.name) for column in grants.primary_key]


def _is_of(grounds: Sequence[Ground]) -> ColumnElement[bool]:
    """Return the condition that a grant is of one of these, or of the group of a task or workflow."""
    named = [and_(_g.kind == kind, _g.record == record) for kind, record in grounds]
    of_group = [
        and_(_g.kind == "group", _g.record == _group_of(_OWNED[kind], int(record)))
        for kind, record in grounds
        if kind in _OWNED
    ]
    return or_(*named, *of_group)


def _group_of(table: Table, number: int) -> ScalarSelect[str]:
    """Return ``VO:GROUP`` of a record; nothing if it is of no group."""
    c = table.c
    return select(c.vo + ":" + c.group).where(c.id == number, c.group != "").scalar_subquery()


def _reads(person: Identity) -> ColumnElement[bool]:
    """Return the condition that a grant is a person's, or their group's."""
    named = _g.person == person.name
    in_group = and_(_g.person == "", _g.group == person.group, _g.group != "")
    return and_(_g.vo == person.vo, or_(and_(named, _g.person != ""), in_group))
