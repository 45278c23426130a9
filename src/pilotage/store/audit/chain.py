"""The chain of the audit: a link for each record, so that a deleted or changed record is noticed.

No change waits for the chain. Every few seconds a process links the new records, in the order of their
numbers, once no earlier number can appear. Only processes that link wait for each other.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.values.types import DESCRIBED
from pilotage.store.audit.table import COLUMNS, audit_links, audit_records
from pilotage.store.database import bulk
from pilotage.store.database.rows import raw_rows
from pilotage.store.history.numbers import numbers

LINKED = "linked audit"
"""The name of the stored number of the last record that has a link."""

FORGOTTEN = "forgotten audit"
"""The name of the stored number of the last record that the retention deleted. Its link stays: the next one
goes on from it."""

BATCH = 1000
"""Most records that one transaction links."""

MOST_FAULTS = 100
"""Most faults of an answer."""

_r, _l = audit_records.c, audit_links.c
_ROW = (_r.id, *(_r[name] for name in COLUMNS))
_NEXT = (
    select(*_ROW)
    .where(_r.id > bindparam("after"), _r.id <= bindparam("last"))
    .order_by(_r.id)
    .limit(bindparam("most"))
)
_HASH = select(_l.hash).where(_l.record == bindparam("record"))
_NUMBER = select(numbers.c.last).where(numbers.c.kind == bindparam("name"))
_LINKS = (
    select(_l.record, _l.previous, _l.hash)
    .where(_l.record > bindparam("after"))
    .order_by(_l.record)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFault:
    """A record that is not as it was written."""

    __pydantic_config__ = DESCRIBED

    record: int
    """Its number."""
    text: str
    """What is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheck:
    """The verification of a part of the chain."""

    __pydantic_config__ = DESCRIBED

    records: int
    """How many records were verified."""
    next: int
    """The last of them: verify on after it; 0: this was the last part."""
    hash: str
    """The hash of the last link of this part. It stands for all records up to there."""
    faults: Sequence[AuditFault] = field(default_factory=list)
    """At most 100."""


def number(connection: Connection, name: str, *, locking: bool = False) -> int:
    """Return one of the stored numbers. With ``locking``, no other process changes it."""
    if not locking:
        return int(connection.execute(_NUMBER, {"name": name}).scalar() or 0)
    bulk.insert(connection, numbers, ("kind", "last"), [(name, 0)], once=True)
    return int(connection.execute(_NUMBER.with_for_update(), {"name": name}).scalar_one())


def link(connection: Connection, newest: int) -> tuple[int, str, bool]:
    """Link some records up to the ``newest``. Return the last link, and whether there may be more."""
    last = number(connection, LINKED, locking=True)
    previous, former = last, _hash(connection, last)
    rows = raw_rows(connection, _NEXT, after=last, last=newest, most=BATCH)
    links = []
    for row in rows:
        links.append((row[0], previous, digest(former, previous, row)))
        previous, _, former = links[-1]
    if links:
        bulk.insert(connection, audit_links, ("record", "previous", "hash"), links)
        bulk.add(connection, numbers, ("kind",), "last", [(LINKED, previous - last)])
    return previous, former, len(rows) == BATCH


def _hash(connection: Connection, record: int) -> str:
    """Return the hash of a record's link; empty if it has none."""
    return str(connection.execute(_HASH, {"record": record}).scalar() or "")


def digest(former: str, previous: int, row: Sequence[Any]) -> str:
    """Return the hash of a record's link, after the ``previous`` record's with the hash ``former``."""
    document = json.dumps([former, previous, *row], separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()


def verify(connection: Connection, after: int, most: int) -> AuditCheck:
    """Verify the links of ``most`` records after a number."""
    forgotten, last = number(connection, FORGOTTEN), number(connection, LINKED)
    after = max(after, forgotten)
    links = raw_rows(connection, _LINKS, after=after, most=most)
    is_end = len(links) < most
    end = last if is_end else links[-1][0]
    rows: dict[int, Sequence[Any]] = {
        row[0]: row for row in raw_rows(connection, _NEXT, after=after, last=end, most=10 * most)
    }
    former = _hash(connection, after)
    faults = list(_faults((after, former), links, rows))
    if after and not former:
        faults.insert(0, AuditFault(record=after, text="the link that the next one goes on from is missing"))
    newest = links[-1][0] if links else after
    if is_end and newest != last:
        faults.append(AuditFault(record=last, text=f"records from {newest + 1} to {last} are missing"))
    return AuditCheck(
        records=len(links),
        next=0 if is_end else end,
        hash=links[-1][2] if links else former,
        faults=sorted(faults, key=lambda fault: fault.record)[:MOST_FAULTS],
    )


def _faults(
    former: tuple[int, str], links: Sequence[Sequence[Any]], rows: dict[int, Sequence[Any]]
) -> Iterator[AuditFault]:
    number, hash_ = former
    for record, previous, its_hash in links:
        row = rows.pop(record, None)
        if row is None:
            yield AuditFault(record=record, text="the record is missing")
        elif previous != number:
            yield AuditFault(record=record, text=f"records between {number} and {record} are missing")
        elif digest(hash_, previous, row) != its_hash:
            yield AuditFault(record=record, text="the record was changed")
        number, hash_ = record, its_hash
    for record in rows:
        yield AuditFault(record=record, text="the record was added later")


def count(connection: Connection) -> int:
    """Return the number of records."""
    return int(connection.execute(select(func.count()).select_from(audit_records)).scalar_one())
