"""A person's settings of notifications for all tasks, and the secret that signs their webhooks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Double, Table, Text, bindparam, select

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.records.notifications import Notify
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.engine import Database
from pilotage.store.people.tokens import refuse_closed

notification_settings = Table(
    "notification_settings",
    metadata,
    Column("vo", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    text_column("notify"),
    text_column("secret"),
    Column("secret_made", Double),
)

_s = notification_settings.c
_KEY = ["vo", "owner"]
_OF = select(_s.notify, _s.secret, _s.secret_made).where(
    _s.vo == bindparam("vo"), _s.owner == bindparam("owner")
)
_SAVE_NOTIFY = upsert(notification_settings, _KEY, ["vo", "owner", "notify"], replaced(["notify"]))
_SAVE_SECRET = upsert(
    notification_settings,
    _KEY,
    ["vo", "owner", "secret", "secret_made"],
    replaced(["secret", "secret_made"]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonNotify:
    """A person's own settings of notifications. Times in s since 1970 UTC."""

    notify: tuple[Notify, ...] = ()
    """Receivers for tasks that name none."""
    secret_made: float | None = None
    """When the secret that signs webhooks was made; null: there is none, and they are not signed."""


class NotificationSettings:
    """Reads and writes persons' settings. ``new_secret`` makes a random text."""

    def __init__(self, database: Database, clock: Callable[[], float], new_secret: Callable[[], str]) -> None:
        self._database = database
        self._clock = clock
        self._new_secret = new_secret

    def of(self, person: Identity) -> PersonNotify:
        """Return a person's settings."""
        notify, _, since = self._read(person.vo, person.name) or ("", "", None)
        return PersonNotify(notify=_receivers(notify), secret_made=since)

    def secret(self, vo: str, owner: str) -> str:
        """Return the secret that signs a person's webhooks; empty if they have none."""
        row = self._read(vo, owner)
        return str(row[1]) if row else ""

    def save(self, person: Identity, notify: Sequence[Notify]) -> None:
        """Replace a person's receivers. Raises PersonClosed for receivers of a closed person."""
        values = {"vo": person.vo, "owner": person.name, "notify": to_json(tuple(notify)).decode()}

        def write(connection: Connection) -> bool:
            if notify:
                refuse_closed(connection, [person])
            connection.execute(_SAVE_NOTIFY, values)
            return True

        self._database.write(write)

    def make_secret(self, person: Identity) -> str:
        """Make and return a new secret for a person. It replaces the old one."""
        secret = self._new_secret()
        values = {"vo": person.vo, "owner": person.name, "secret": secret, "secret_made": self._clock()}
        self._database.write(lambda connection: connection.execute(_SAVE_SECRET, values), alone=False)
        return secret

    def _read(self, vo: str, owner: str) -> Any:
        def read(connection: Connection) -> Any:
            return connection.execute(_OF, {"vo": vo, "owner": owner}).first()

        return self._database.read(read)


def _receivers(text: str) -> tuple[Notify, ...]:
    return from_json(tuple[Notify, ...], text) if text else ()
