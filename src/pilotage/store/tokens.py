"""Bearer tokens: shown once when made, kept as a hash, forgotten when they expire."""

import hashlib
import secrets
import time
from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select

from pilotage.model.identity import Credential, Identity

from .engine import Database
from .tables import tokens

_t = tokens.c


class Tokens:
    """What stands behind a token. ``clock`` tells the time, in s since 1970 UTC."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def create(self, credential: Credential) -> str:
        """A new random token for a credential; it cannot be shown again. Drops what has expired."""
        token = secrets.token_urlsafe(32)
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
        """What a token stands for; None if it was never given out, was revoked, or has expired."""
        query = select(tokens).where(_t.hash == _hash(token))
        row = self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None or (row.expires is not None and row.expires <= self._clock()):
            return None
        identity = Identity(name=row.owner, vo=row.vo, group=row.group, vo_role=row.vo_role)
        return Credential(role=row.role, identity=identity, pilot=row.pilot, expires=row.expires)

    def revoke_pilot(self, pilot: int) -> None:
        """A pilot's tokens stand for nothing any more."""
        self._database.write(lambda connection: connection.execute(delete(tokens).where(_t.pilot == pilot)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
