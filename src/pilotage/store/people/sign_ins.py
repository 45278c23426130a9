"""People who sign in with a provider: each name belongs to one subject of one issuer.

Two subjects that a rule gives the same name would be one person here. So the first one keeps the name. A name
that works here with own tokens goes to nobody, unless the rule lets it join.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Column, Connection, Double, Select, String, Table, bindparam, insert, select

from pilotage.model.values.identity import PERSON_ROLES, Identity
from pilotage.model.values.scopes import personal_scope
from pilotage.store.database.columns import begins, metadata
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import NameTaken, PersonClosed
from pilotage.store.files.table import files
from pilotage.store.jobs.daily_use import daily_use
from pilotage.store.people.notification_settings import notification_settings
from pilotage.store.people.secrets import secrets
from pilotage.store.people.tokens import refuse_closed, tokens
from pilotage.store.tasks.table import tasks

people_of_issuers = Table(
    "people_of_issuers",
    metadata,
    Column("owner", String, primary_key=True),
    Column("vo", String, primary_key=True),
    Column("issuer", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("since", Double, nullable=False),
)

_p, _t = people_of_issuers.c, tokens.c

_HOLDER = select(_p.issuer, _p.subject).where(_p.owner == bindparam("name"), _p.vo == bindparam("of_vo"))
_STATE = (
    "SELECT p.issuer, p.subject, c.closed FROM people_of_issuers p "
    "LEFT JOIN closed_people c ON c.owner = p.owner AND c.vo = p.vo "
    "WHERE p.owner = %(name)s AND p.vo = %(vo)s"
)


class SignIns:
    """Gives names to subjects of issuers. ``clock`` returns the time in s since 1970 UTC."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def admit(self, person: Identity, issuer: str, subject: str, *, joins_local: bool) -> None:
        """Let a subject be a person, from now on.

        Raises ``NameTaken`` if the name belongs to another subject, or to a person with own tokens; and
        ``PersonClosed``.
        """
        rows = self._database.look(_STATE, {"name": person.name, "vo": person.vo})
        if not rows:
            self._database.write(
                lambda connection: self._give(connection, person, (issuer, subject), joins_local)
            )
            return
        holder_issuer, holder, closed = rows[0]
        if (holder_issuer, holder) != (issuer, subject):
            raise NameTaken(person.name, person.vo)
        if closed is not None:
            raise PersonClosed(person.name, person.vo)

    def _give(
        self, connection: Connection, person: Identity, key: tuple[str, str], joins_local: bool
    ) -> None:
        refuse_closed(connection, [person])
        holder = connection.execute(_HOLDER, {"name": person.name, "of_vo": person.vo}).one_or_none()
        if holder is None and not joins_local and _is_local(connection, person):
            raise NameTaken(person.name, person.vo)
        if holder is None:
            issuer, subject = key
            values = {"issuer": issuer, "subject": subject, "since": self._clock()}
            connection.execute(insert(people_of_issuers), {"owner": person.name, "vo": person.vo, **values})
        elif tuple(holder) != key:
            raise NameTaken(person.name, person.vo)


def _is_local(connection: Connection, person: Identity) -> bool:
    """Return whether a person has, or left, anything here: tokens, work, use, files, secrets, settings."""
    return any(connection.execute(query.limit(1)).first() for query in _traces(person))


def _traces(person: Identity) -> Iterator[Select[Any]]:
    yield select(_t.hash).where(
        _t.owner == person.name, _t.vo == person.vo, _t.pilot.is_(None), _t.role.in_(PERSON_ROLES)
    )
    for table in (tasks, secrets, notification_settings, daily_use):
        yield select(table.c.owner).where(table.c.vo == person.vo, table.c.owner == person.name)
    yield select(files.c.name).where(begins(files.c.name, f"{personal_scope(person)}:", ""))
