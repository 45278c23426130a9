"""The federation as it was declared, every version of it; parsed once, looked up by version."""

import json
import threading

from sqlalchemy import Column, Connection, Double, Integer, Table, Text, func, insert, select

from pilotage.model.documents import from_json, to_json
from pilotage.model.federation import Federation

from .columns import metadata, text_column
from .engine import Database
from .errors import FederationRenamed, NoFederation
from .sets import raw_rows

federations = Table(
    "federations",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    text_column("actor"),
    Column("document", Text, nullable=False),
)

_VERSION = select(func.max(federations.c.version))
_NEWEST = select(federations.c.document).order_by(federations.c.version.desc()).limit(1)


class Federations:
    """Saves and remembers the federation."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: tuple[int, Federation] | None = None

    def save(self, federation: Federation, actor: str, time: float) -> int:
        """Make this the federation as of ``time``, in s since 1970 UTC; returns its version.

        Raises :class:`FederationRenamed` where the store has one of another name.
        """
        document = to_json(federation).decode()

        def write(connection: Connection) -> int:
            before = connection.execute(_NEWEST).scalar()
            if before is not None and (name := json.loads(before)["name"]) != federation.name:
                raise FederationRenamed(name, federation.name)
            version = (connection.execute(_VERSION).scalar() or 0) + 1
            row = {"version": version, "time": time, "actor": actor, "document": document}
            connection.execute(insert(federations), row)
            return version

        return self._database.write(write)

    def current(self, connection: Connection) -> Federation:
        """The federation as of this connection's moment. Raises :class:`NoFederation`."""
        ((version,),) = raw_rows(connection, _VERSION)
        if version is None:
            raise NoFederation
        with self._lock:
            known = self._known
        # Two threads may parse the same version at once; waiting for each other would take as long.
        if known is None or known[0] != version:
            query = select(federations.c.document).where(federations.c.version == version)
            known = (version, from_json(Federation, connection.execute(query).scalar_one()))
            with self._lock:
                self._known = known
        return known[1]

    def read(self) -> Federation:
        """The federation as of now. Raises :class:`NoFederation`."""
        return self._database.read(self.current)

    def last(self) -> Federation:
        """The federation as this process read it last. Raises :class:`NoFederation`."""
        known = self._known
        return self.read() if known is None else known[1]
