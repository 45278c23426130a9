"""Bearer tokens: shown once when made, stored as a hash, deleted when they expire or their pilot ends.

Closing a person revokes their tokens. Requests that already run with such a token start nothing for them.
"""

import base64
import hmac
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Index,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import DBAPIError

from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.values.identity import (
    PERSON_ROLES,
    TOKEN_ID_LENGTH,
    Credential,
    Identity,
    Role,
    hashed,
    refuse_unfit,
)
from pilotage.store.database.acts import note_act
from pilotage.store.database.columns import Id, metadata, owner_columns, text_column
from pilotage.store.database.engine import Database
from pilotage.store.database.errors import PersonClosed
from pilotage.store.database.rows import among
from pilotage.store.pilots.table import pilots
from pilotage.store.tasks.table import tasks

log = logging.getLogger(__name__)

closed_people = Table(
    "closed_people",
    metadata,
    Column("owner", String, primary_key=True),
    Column("vo", String, primary_key=True),
    Column("closed", Double, nullable=False),
)

_c = closed_people.c
_ONE = (_c.owner == bindparam("name"), _c.vo == bindparam("of_vo"))
_OPEN = delete(closed_people).where(*_ONE)
_CLOSED = select(_c.owner, _c.vo).where(*_ONE)
_OF_TASKS = select(tasks.c.owner, tasks.c.vo).where(
    among(tasks.c.id, "ids"), tuple_(tasks.c.owner, tasks.c.vo).in_(select(_c.owner, _c.vo))
)


def close(connection: Connection, person: Identity, time: float) -> None:
    """Record when a person was closed, in s since 1970 UTC."""
    reopen(connection, [person])
    connection.execute(insert(closed_people), {"owner": person.name, "vo": person.vo, "closed": time})


def reopen(connection: Connection, people: Iterable[Identity]) -> None:
    """Let closed people work again."""
    if values := [{"name": person.name, "of_vo": person.vo} for person in people]:
        connection.execute(_OPEN, values)


def refuse_closed(connection: Connection, owners: Iterable[Identity]) -> None:
    """Raise PersonClosed if one of the owners of new work or settings is closed."""
    for name, vo in sorted({(owner.name, owner.vo) for owner in owners}):
        if connection.execute(_CLOSED, {"name": name, "of_vo": vo}).first():
            raise PersonClosed(name, vo)


def refuse_tasks_of_closed(connection: Connection, ids: Iterable[int]) -> None:
    """Raise PersonClosed if one of the ended tasks to resume belongs to a closed person."""
    if row := connection.execute(_OF_TASKS, {"ids": list(ids)}).first():
        raise PersonClosed(*row)


tokens = Table(
    "tokens",
    metadata,
    Column("hash", String, primary_key=True),
    Column("role", String, nullable=False),
    *owner_columns(),
    Column("pilot", Id),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("nonce", String),
    Column("purpose", String, nullable=False, server_default=""),
    Column("used", Double),
    Column("browser", String),
    # Names of a site admin's sites, one in a line.
    text_column("sites"),
    Index("tokens_by_pilot", "pilot"),
    Index("tokens_by_expiry", "expires"),
)

_t = tokens.c

_OF_PEOPLE = (_t.pilot.is_(None), _t.browser.is_(None))
"""Tokens of people, without their sessions. A session's nonce is the hash of the token that opened it."""

_OF_PILOTS = (
    select(pilots.c.id, pilots.c.state)
    .where(among(pilots.c.id, "pilots"))
    .order_by(pilots.c.id)
    .with_for_update(read=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonToken:
    """The description of a person's token, without the token itself."""

    id: str
    """Identifies the token, but does not grant access."""
    role: Role
    """The bearer's rights."""
    name: str
    """Its bearer."""
    vo: str
    """The bearer's virtual organisation."""
    group: str
    """The bearer's group in the VO."""
    vo_role: str
    """The bearer's role in the VO."""
    created: float
    """When it was made, in s since 1970 UTC."""
    expires: float | None
    """When it expires, in s since 1970 UTC; null: never."""
    purpose: str
    """What it is for, in the words of its maker."""
    used: float | None
    """When it was last used, within an hour, in s since 1970 UTC; null: never."""
    sites: tuple[str, ...] = ()
    """The sites of a site admin."""


_FIND = (
    'SELECT t.role, t.owner, t.vo, t."group", t.vo_role, t.pilot, p.queue, t.expires, t.sites '
    "FROM tokens t LEFT JOIN pilots p ON p.id = t.pilot WHERE t.hash = %(hash)s"
)


class Tokens:
    """Makes tokens, and finds their credentials.

    ``clock`` returns the time in s since 1970 UTC. ``new`` makes a random text.
    """

    def __init__(self, database: Database, clock: Callable[[], float], new: Callable[[], str]) -> None:
        self._database = database
        self._clock = clock
        self._new = new

    def create(self, credential: Credential, purpose: str = "") -> str:
        """Make a token for a credential. It cannot be shown again. Delete expired tokens."""
        return self.create_all([credential], purpose)[0]

    def create_all(self, credentials: Sequence[Credential], purpose: str = "") -> list[str]:
        """Make a token for each credential, in one transaction. Tokens of ended pilots are not stored.

        Raises ``UnfitName``.
        """
        for credential in credentials:
            refuse_unfit(credential)
        new_tokens = [self._new() for _ in credentials]
        now = self._clock()
        rows = [
            new_row(token, credential, now, purpose)
            for token, credential in zip(new_tokens, credentials, strict=True)
        ]
        of_pilots = sorted({credential.pilot for credential in credentials if credential.pilot is not None})

        def write(connection: Connection) -> bool:
            # Clean the table here, where it grows. Then it needs no other cleaning.
            connection.execute(delete(tokens).where(_t.expires <= now))
            ended = _ended(connection, of_pilots) if of_pilots else frozenset()
            if live := [row for row in rows if row["pilot"] not in ended]:
                connection.execute(insert(tokens), live)
            opened = [
                credential.identity
                for credential in credentials
                if credential.role in PERSON_ROLES and credential.pilot is None
            ]
            reopen(connection, opened)
            return True

        note_act(after={"token": ", ".join(row["hash"][:TOKEN_ID_LENGTH] for row in rows)})
        self._database.write(write)
        return new_tokens

    def find(self, token: str) -> Credential | None:
        """Return a token's credential; None if it never existed, was revoked, or has expired."""
        rows = self._database.look(_FIND, {"hash": hashed(token)})
        if not rows:
            return None
        role, owner, vo, group, vo_role, pilot, queue, expires, sites = rows[0]
        if expires is not None and expires <= self._clock():
            return None
        identity = Identity(name=owner, vo=vo, group=group, vo_role=vo_role)
        names = frozenset(sites.splitlines())
        return Credential(
            role=role, identity=identity, pilot=pilot, queue=queue or "", expires=expires, sites=names
        )

    def enrol(self, token: str, nonce: str, expires: float) -> str | None:
        """Exchange a pilot's enrolment token for its credential, which lasts until ``expires``.

        A pilot gets one credential, even if it has several enrolment tokens. The same nonce gets the same
        answer again. Return None for another nonce, and for a token of another kind.
        """
        pilot_token = _derived(token, nonce)

        def write(connection: Connection) -> bool:
            row = connection.execute(select(tokens).where(_t.hash == hashed(token))).one_or_none()
            if row is None or row.role not in ("enrolment", "enrolled") or _ended(connection, [row.pilot]):
                return False
            mine = (_t.pilot == row.pilot, _t.role == "enrolment")
            used = update(tokens).where(*mine).values(role="enrolled", nonce=hashed(nonce))
            if not connection.execute(used).rowcount:
                again = select(_t.nonce).where(_t.hash == row.hash)
                # Compare in constant time.
                return hmac.compare_digest(str(connection.execute(again).scalar()), hashed(nonce))
            named = {name: row._mapping[name] for name in ("owner", "vo", "group", "vo_role", "pilot")}
            bound = {
                "hash": hashed(pilot_token),
                "role": "pilot",
                "created": self._clock(),
                "expires": expires,
            }
            connection.execute(insert(tokens), {**named, **bound})
            return True

        return pilot_token if self._database.write(write) else None

    def renew(self, pilot: int, expires: float) -> None:
        """Extend a pilot's credential until ``expires``, in s since 1970 UTC."""
        condition = (_t.pilot == pilot, _t.role == "pilot", _t.expires < expires)
        self._database.write(
            lambda connection: connection.execute(update(tokens).where(*condition).values(expires=expires))
        )

    def hash_of_pilot(self, pilot: int) -> str:
        """Return the hash of a pilot's token. Raises ValueError if it has none."""
        query = select(_t.hash).where(_t.pilot == pilot, _t.role == "pilot")
        hash_ = self._database.read(lambda connection: connection.execute(query).scalar())
        if hash_ is None:
            raise ValueError(f"pilot {pilot} has no token")
        return str(hash_)

    def people(self) -> list[PersonToken]:
        """Return the unexpired tokens of people, newest first, without the sessions that they opened."""
        is_valid = _t.expires.is_(None) | (_t.expires > self._clock())
        query = select(tokens).where(*_OF_PEOPLE, is_valid).order_by(_t.created.desc(), _t.hash)
        return [
            _person(row) for row in self._database.read(lambda connection: connection.execute(query).all())
        ]

    def rotate(self, name: str, until: float) -> str | None:
        """Make a token like a person's, with as long a life. The old one ends at ``until``, if not before.

        Return None if no id begins like this, or several do. Times in s since 1970 UTC.
        """
        token, now = self._new(), self._clock()

        def write(connection: Connection) -> bool:
            row = _of_id(connection, name)
            if row is None or (row.expires is not None and row.expires <= now):
                return False
            life = None if row.expires is None else row.expires - row.created
            new = {**row._mapping, "hash": hashed(token), "created": now, "used": None}
            connection.execute(insert(tokens), {**new, "expires": None if life is None else now + life})
            end = until if row.expires is None else min(until, row.expires)
            # A session may last until the end of the token that opened it.
            ending = update(tokens).where(
                (_t.hash == row.hash) | ((_t.nonce == row.hash) & (_t.expires > end))
            )
            connection.execute(ending.values(expires=end))
            note_act(after={"token": new["hash"][:TOKEN_ID_LENGTH]})
            return True

        return token if self._database.write(write) else None

    def note_use(self, token: str, time: float) -> None:
        """Record when a token is used, in s since 1970 UTC. A full disk keeps its bearer from nothing."""
        used = update(tokens).where(_t.hash == hashed(token)).values(used=time)
        try:
            self._database.write(lambda connection: connection.execute(used), is_audited=False)
        except (DBAPIError, OSError) as error:
            log.warning("the last use of a token could not be recorded: %s", error)

    def revoke(self, name: str) -> PersonToken | None:
        """Revoke a person's token, and the sessions that it opened.

        Return None if no id begins like this, or several do.
        """

        def write(connection: Connection) -> PersonToken | None:
            row = _of_id(connection, name)
            if row is None:
                return None
            opened = (_t.pilot.is_(None)) & (_t.nonce == row.hash)
            connection.execute(delete(tokens).where((_t.hash == row.hash) | opened))
            return _person(row)

        return self._database.write(write)

    def of_person(self, name: str) -> list[PersonToken]:
        """Return the unexpired tokens of the people of a name in any VO."""
        return [token for token in self.people() if token.name == name and token.role in PERSON_ROLES]

    def close(self, person: Identity) -> None:
        """Revoke all tokens of a person, and the sessions that they opened.

        Servers accept a cached token for some seconds more. So until the person gets a new token, the store
        refuses to commit a task for them.
        """
        is_person = _t.role.in_(PERSON_ROLES) & _t.pilot.is_(None)
        conditions = (_t.owner == person.name, _t.vo == person.vo, is_person)
        now = self._clock()

        def write(connection: Connection) -> bool:
            connection.execute(delete(tokens).where(*conditions))
            close(connection, person, now)
            return True

        self._database.write(write)


def _of_id(connection: Connection, name: str) -> Any:
    """Return the one row of a person's token with an id that begins like this; None if there are several."""
    query = select(tokens).where(*_OF_PEOPLE, _t.hash.startswith(name, autoescape=True)).limit(2)
    rows = connection.execute(query).all()
    return rows[0] if len(rows) == 1 else None


def _ended(connection: Connection, numbers: Sequence[int]) -> frozenset[int]:
    """Return which of these pilots have ended.

    The others end only after this transaction. So the commit that ends them revokes the new tokens.
    """
    rows = connection.execute(_OF_PILOTS, {"pilots": numbers})
    return frozenset(number for number, state in rows if state not in LIVE_PILOTS)


def new_row(token: str, credential: Credential, now: float, purpose: str = "") -> dict[str, Any]:
    """Return the row of a token that is made now, for a ``purpose``."""
    owner = credential.identity
    return {
        "hash": hashed(token),
        "role": credential.role,
        "owner": owner.name,
        "vo": owner.vo,
        "group": owner.group,
        "vo_role": owner.vo_role,
        "pilot": credential.pilot,
        "created": now,
        "expires": credential.expires,
        "purpose": purpose,
        "sites": "\n".join(sorted(credential.sites)),
    }


def _person(row: Any) -> PersonToken:
    return PersonToken(
        id=row.hash[:TOKEN_ID_LENGTH],
        role=row.role,
        name=row.owner,
        vo=row.vo,
        group=row.group,
        vo_role=row.vo_role,
        created=row.created,
        expires=row.expires,
        purpose=row.purpose,
        used=row.used,
        sites=tuple(row.sites.splitlines()),
    )


def _derived(token: str, nonce: str) -> str:
    """Return the token of a pilot. Making it needs both parts, and the store has neither."""
    digest = hmac.digest(token.encode(), nonce.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
