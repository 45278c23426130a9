"""Tasks, queues and other subjects that make a step's policy fail: table, writing, reading, deletion."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from sqlalchemy import Connection, PrimaryKeyConstraint, Table, bindparam, delete, select

from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.engine import Database
from pilotage.store.database.record_columns import maker, record_columns
from pilotage.store.database.rows import raw_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideRecord:
    """A task, queue or other ``subject`` that a step skips, and the error of its policy.

    ``among`` counts the subjects that it could not be separated from, ``times`` its failures since then, in s
    since 1970 UTC like ``retry_at``.
    """

    step: str
    subject: str
    name: str
    error: str
    among: int
    since: float
    times: int
    retry_at: float


set_aside = Table(
    "set_aside",
    metadata,
    *record_columns(SetAsideRecord),
    PrimaryKeyConstraint("step", "subject", "name"),
)

_s = set_aside.c
_ALL = select(set_aside).order_by(_s.since, _s.step, _s.subject, _s.name)
_NAMED = select(set_aside).where(_s.subject == bindparam("subject"), _s.name == bindparam("name"))
_FORGET = delete(set_aside).where(
    _s.step == bindparam("its_step"),
    _s.subject == bindparam("its_subject"),
    _s.name == bindparam("its_name"),
)
_record = maker(SetAsideRecord)


class SetAsideRecords:
    """Stores records set aside, for people and for the next process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def everything(self) -> tuple[SetAsideRecord, ...]:
        """Return all records, oldest first."""
        return self._database.read(lambda connection: tuple(map(_record, raw_rows(connection, _ALL))))

    def of(self, subject: str, name: str) -> tuple[SetAsideRecord, ...]:
        """Return the steps that have set something aside."""
        return self._database.read(
            lambda connection: tuple(map(_record, raw_rows(connection, _NAMED, subject=subject, name=name)))
        )

    def replace(self, gone: Iterable[SetAsideRecord], new: Sequence[SetAsideRecord]) -> None:
        """Delete some records and write others, replacing those with the same names."""
        keys = [
            {"its_step": record.step, "its_subject": record.subject, "its_name": record.name}
            for record in (*gone, *new)
        ]

        def write(connection: Connection) -> None:
            if keys:
                connection.execute(_FORGET, keys)
            bulk.insert(
                connection, set_aside, set_aside.c.keys(), [astuple(record) for record in new], once=True
            )

        self._database.write(write)
