"""Secrets of people for their payloads, encrypted: table, writing, reading, deletion.

The table has only ciphertext. The servers keep the keys.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Double, String, Table, delete, func, select, update

from pilotage.model.records.secrets import KeptSecret
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.engine import Database
from pilotage.store.people.tokens import refuse_closed

secrets = Table(
    "secrets",
    metadata,
    Column("owner", String, primary_key=True),
    Column("vo", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("ciphertext", String, nullable=False),
    Column("key", String, nullable=False),
    Column("set_at", Double, nullable=False),
)

_s = secrets.c
_VALUES = ("ciphertext", "key", "set_at")
_SAVE = upsert(secrets, ["owner", "vo", "name"], ["owner", "vo", "name", *_VALUES], replaced(_VALUES))


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A secret as it is stored, and the digest of the key that encrypted it."""

    owner: str
    vo: str
    name: str
    ciphertext: str
    key: str


class Secrets:
    """Stores encrypted secrets. ``clock`` returns the time in s since 1970 UTC."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def put(self, secret: Encrypted, limit: int) -> bool:
        """Write a secret in place of an earlier one. Return False if its owner has ``limit`` others.

        Raises PersonClosed if the owner is closed.
        """
        row = {name: getattr(secret, name) for name in ("owner", "vo", "name", "ciphertext", "key")}
        conditions = (_s.owner == secret.owner, _s.vo == secret.vo, _s.name != secret.name)

        def write(connection: Connection) -> bool:
            refuse_closed(connection, [Identity(name=secret.owner, vo=secret.vo)])
            if connection.execute(select(func.count()).where(*conditions)).scalar_one() >= limit:
                return False
            connection.execute(_SAVE, {**row, "set_at": self._clock()})
            return True

        return self._database.write(write)

    def names(self, owner: str, vo: str) -> tuple[KeptSecret, ...]:
        """Return the secrets of a person by name, without their values."""
        query = select(_s.name, _s.set_at).where(_s.owner == owner, _s.vo == vo).order_by(_s.name)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return tuple(KeptSecret(name=name, set_at=set_at) for name, set_at in rows)

    def find(self, owner: str, vo: str, names: Collection[str]) -> tuple[Encrypted, ...]:
        """Return the secrets of a person with these names that are set."""
        query = _ENCRYPTED.where(_s.owner == owner, _s.vo == vo, _s.name.in_(names))
        return self._database.read(lambda connection: _all(connection.execute(query)))

    def everything(self) -> tuple[Encrypted, ...]:
        """Return the secrets of all people."""
        return self._database.read(lambda connection: _all(connection.execute(_ENCRYPTED)))

    def keys(self) -> frozenset[str]:
        """Return the digests of all keys that encrypted stored secrets."""
        query = select(_s.key).distinct()
        return frozenset(self._database.read(lambda connection: connection.execute(query).scalars().all()))

    def owners_beyond(self, keys: Collection[str]) -> frozenset[tuple[str, str]]:
        """Return people, by VO and name, with a secret that none of these keys decrypts."""
        query = select(_s.vo, _s.owner).where(_s.key.not_in(keys)).distinct()
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return frozenset((vo, owner) for vo, owner in rows)

    def encrypt_again(self, old: Encrypted, new: Encrypted) -> bool:
        """Replace the ciphertext of an unchanged secret. Return False if it was set or removed since."""
        query = (
            update(secrets)
            .where(_s.owner == old.owner, _s.vo == old.vo, _s.name == old.name)
            .where(_s.ciphertext == old.ciphertext)
            .values(ciphertext=new.ciphertext, key=new.key)
        )
        return bool(self._database.write(lambda connection: connection.execute(query).rowcount))

    def remove(self, owner: str, vo: str, name: str) -> bool:
        """Delete a secret. Return whether it was there."""
        query = delete(secrets).where(_s.owner == owner, _s.vo == vo, _s.name == name)
        return bool(self._database.write(lambda connection: connection.execute(query).rowcount))


_ENCRYPTED = select(_s.owner, _s.vo, _s.name, _s.ciphertext, _s.key).order_by(_s.owner, _s.vo, _s.name)


def _all(rows: Iterable[tuple[str, str, str, str, str]]) -> tuple[Encrypted, ...]:
    return tuple(Encrypted(*row) for row in rows)
