"""Bearer tokens: shown once when made, kept as a hash, forgotten when they expire or their pilot ends."""

import hashlib
from collections.abc import Callable

from sqlalchemy import Column, Connection, Double, Index, String, Table, delete, insert, select

from pilotage.model.identity import Credential, Identity

from .columns import Id, metadata, owner_columns
from .engine import Database

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String, primary_key=True),
    Column("role", String, nullable=False),
    *owner_columns(),
    Column("pilot", Id),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Index("tokens_by_pilot", "pilot"),
    Index("tokens_by_expiry", "expires"),
)

_t = tokens.c


class Tokens:
    """Makes tokens and finds what they stand for.

    ``clock`` tells the time, in s since 1970 UTC; ``new`` makes a text that nobody can guess.
    """

    def __init__(self, database: Database, clock: Callable[[], float], new: Callable[[], str]) -> None:
        self._database = database
        self._clock = clock
        self._new = new

    def create(self, credential: Credential) -> str:
        """Make a token for a credential; it cannot be shown again. Drops what has expired."""
        token = self._new()
        owner = credential.identity
        row = {
            "hash": _hash(token),
            "role": credential.role,
            "owner": owner.name,
            "vo": owner.vo,
            "group": owner.group,
            "vo_role": owner.vo_role,
            "pilot": credential.pilot,
            "created": self._clock(),
            "expires": credential.expires,
        }

        def write(connection: Connection) -> None:
            connection.execute(delete(tokens).where(_t.expires <= self._clock()))
            connection.execute(insert(tokens), row)

        self._database.write(write)
        return token

    def find(self, token: str) -> Credential | None:
        """Find what a token stands for; None if it was never given out, was revoked, or has expired."""
        query = select(tokens).where(_t.hash == _hash(token))
        row = self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None or (row.expires is not None and row.expires <= self._clock()):
            return None
        identity = Identity(name=row.owner, vo=row.vo, group=row.group, vo_role=row.vo_role)
        return Credential(role=row.role, identity=identity, pilot=row.pilot, expires=row.expires)

    def revoke_pilot(self, pilot: int) -> None:
        """Make a pilot's tokens stand for nothing."""
        self._database.write(lambda connection: connection.execute(delete(tokens).where(_t.pilot == pilot)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
