"""The audit of a store: writes records, links them, lists and verifies them, and deletes old ones."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, or_, select

from pilotage.model.records.audit import AuditRecord, NewAuditRecord
from pilotage.model.values.durations import DAY, HOUR
from pilotage.model.values.identity import Identity, Owners, includes
from pilotage.store.audit import chain, table
from pilotage.store.audit.acts import Act
from pilotage.store.audit.chain import FORGOTTEN, AuditCheck, number
from pilotage.store.audit.refusals import MOST_READS, Memory, Refusals
from pilotage.store.audit.table import COLUMNS, SEQUENCE, audit_links, audit_records, record_of
from pilotage.store.commit.archive import ARCHIVE
from pilotage.store.database import bulk
from pilotage.store.database.columns import is_of
from pilotage.store.database.engine import Database
from pilotage.store.database.keyset import ListPage, cut, numbered
from pilotage.store.database.rows import raw_rows
from pilotage.store.history.numbers import numbers
from pilotage.store.history.settled_numbers import SettledNumbers
from pilotage.store.servers.servers import require

log = logging.getLogger(__name__)

BATCH = 5000
"""Most records that one transaction deletes."""

_r, _l = audit_records.c, audit_links.c
_ROW = (_r.id, *(_r[name] for name in COLUMNS))
_FIRST = select(_r.id, _r.time).order_by(_r.id).limit(bindparam("most"))
_DELETE = delete(audit_records).where(_r.id <= bindparam("up_to"))
_DELETE_LINKS = delete(audit_links).where(_l.record < bindparam("up_to"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which records are listed: what the caller may see (``sight``), and what they look for."""

    sight: Owners = None
    person: str = ""
    verb: str = ""
    record: str = ""
    since: float = 0.0
    until: float = float("inf")
    after: str = ""
    limit: int = 100
    oldest_first: bool = False

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions on records."""
        texts = (("person", self.person), ("verb", self.verb), ("record", self.record))
        conditions = [_r[name] == text for name, text in texts if text]
        conditions += [_r.time >= self.since] if self.since else []
        conditions += [_r.time < self.until] if self.until < float("inf") else []
        if self.sight is not None:
            by_them = and_(*is_of(self.sight, _r.person, _r.vo))
            conditions.append(or_(by_them, and_(*is_of(self.sight, _r.owner, _r.owner_vo))))
        if self.after:
            position = numbered(self.after)
            conditions.append(_r.id > position if self.oldest_first else _r.id < position)
        return conditions

    def shown(self, record: AuditRecord) -> AuditRecord:
        """Return a record as the caller may see it: what others did, without their token and address."""
        is_theirs = includes(self.sight, record.person, record.vo)
        return record if is_theirs else replace(record, token="", address="")


class Audit:
    """Everything about the audit. ``clock`` returns the time in s since 1970 UTC."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock
        self._settled = SettledNumbers(database, _r.id, SEQUENCE)
        self.refusals = Refusals(clock)
        self.sign_ins = Memory(clock, DAY)
        self._reads, self._reads_of = Memory(clock, HOUR), Memory(clock, HOUR)
        self._logged = 0.0

    def write(self, act: Act) -> None:
        """Write the record of an act that changed nothing in the store."""
        self._database.write(act.write, alone=False, is_audited=False)
        act.settle()

    def add(self, *records: NewAuditRecord) -> None:
        """Write records."""

        def write(connection: Connection) -> None:
            for record in records:
                table.write(connection, record)

        if records:
            self._database.write(write, alone=False, is_audited=False)

    def is_new_read(self, person: Identity, record: str) -> bool:
        """Return whether a person's read of others' data is to be recorded: once an hour, within bounds."""
        is_new = not self._reads.count((person.key, record))
        return is_new and self._reads_of.count(person.key) < MOST_READS

    def note_read(self, person: Identity, record: str) -> None:
        """Remember that a person's read of others' data is recorded."""
        self._reads.add((person.key, record))
        self._reads_of.add(person.key)

    def update(self) -> None:
        """Write the counted refusals, and link new records."""
        refused = self.refusals.take(self._database.server)
        try:
            self.add(*refused)
        except BaseException:
            self.refusals.restore(refused)
            raise
        self.link()

    def link(self) -> None:
        """Link all records that can get no earlier one."""
        newest = self._settled.newest()
        if self._database.read(partial(number, name=chain.LINKED)) >= newest:
            return
        more = True
        while more:
            record, hash_, more = self._database.write(
                lambda connection: chain.link(connection, newest), alone=False, is_audited=False
            )
        if self._clock() - self._logged >= HOUR:
            # Outside of the store: whoever changes the store does not change this.
            self._logged = self._clock()
            log.info("the audit's record %d has the hash %s", record, hash_)

    def verify(self, after: int, most: int) -> AuditCheck:
        """Verify the links of ``most`` records after a number."""
        return self._database.read(lambda connection: chain.verify(connection, after, most))

    def page(self, query: AuditQuery) -> ListPage[AuditRecord]:
        """Return records, newest first unless asked otherwise. Raises ``BadCursor``."""
        order = _r.id if query.oldest_first else _r.id.desc()
        statement = select(*_ROW).where(*query.conditions()).order_by(order).limit(query.limit + 1)
        rows = self._database.read(lambda connection: connection.execute(statement).all())
        page, following = cut(rows, query.limit, lambda row: row.id)
        return ListPage([query.shown(record_of(tuple(row))) for row in page], None, {}, following)

    def old(self, before: float, most: int = BATCH) -> list[AuditRecord]:
        """Return the first records before a time (s since 1970 UTC) that ``forget`` deletes."""
        ids = self._database.read(lambda connection: _old(connection, before, most))
        if not ids:
            return []
        query = select(*_ROW).where(_r.id <= ids[-1]).order_by(_r.id)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [record_of(tuple(row)) for row in rows]

    def forget(self, before: float, most: int = BATCH) -> int:
        """Delete the first records before a time (s since 1970 UTC), one batch at most. Return how many.

        The newest one stays, because SQLite numbers the next one after it; so do those without a link. The
        link of the last deleted one stays, because the next one goes on from it.
        """

        def write(connection: Connection) -> int:
            former = number(connection, FORGOTTEN, locking=True)
            if ids := _old(connection, before, most):
                _forget(connection, former, ids[-1])
            return len(ids)

        return self._database.write(write, alone=False, is_audited=False)

    def forget_up_to(self, last: int, server: str) -> None:
        """Delete the records up to one, which ``old`` gave. Raises ``LeaseLost`` like the archive."""

        def write(connection: Connection) -> None:
            require(connection, ARCHIVE, server)
            _forget(connection, number(connection, FORGOTTEN, locking=True), last)

        self._database.write(write, alone=False, is_audited=False)


def _forget(connection: Connection, former: int, last: int) -> None:
    connection.execute(_DELETE, {"up_to": last})
    connection.execute(_DELETE_LINKS, {"up_to": last})
    bulk.add(connection, numbers, ("kind",), "last", [(FORGOTTEN, last - former)])


def _old(connection: Connection, before: float, most: int) -> list[int]:
    rows = raw_rows(connection, _FIRST, most=most + 1)
    linked = number(connection, chain.LINKED)
    # Stop at the first one that stays: times are not quite in order, because servers' clocks differ.
    kept = next((at for at, (id_, time) in enumerate(rows) if time >= before or id_ > linked), len(rows) - 1)
    return [id_ for id_, _ in rows[: max(kept, 0)]][:most]
