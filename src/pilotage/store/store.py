"""The store as the rest of the house sees it."""

from collections.abc import Callable

from pilotage.model.decision import Committed, Decision
from pilotage.model.federation import Federation

from . import schema
from .commit import Commit, Documents, check
from .engine import Database
from .federations import Federations
from .queries import Queries
from .rows import Specs
from .snapshots import Snapshots
from .tokens import Tokens

Listener = Callable[[Decision, Committed], None]


class Store:
    """Everything there is to know, in one database. Safe to use from many threads and processes.

    ``listeners`` are called, in the thread that committed, after each commit of this process.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.listeners: list[Listener] = []
        self._federations = Federations(database)
        specs = Specs()
        self.snapshots = Snapshots(database, self._federations, specs)
        self.queries = Queries(database, self._federations, specs)
        self.tokens = Tokens(database)

    @classmethod
    def open(cls, url: str) -> "Store":
        """Open ``sqlite:///PATH`` or ``postgresql+psycopg://...``, its tables brought up to date.

        Raises ValueError for another kind of address, and :class:`NewerStore`.
        """
        database = Database(url)
        try:
            database.write(schema.upgrade)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Give all connections back."""
        self.database.close()

    def commit(self, decision: Decision, actor: str) -> Committed:
        """Write all of a decision that still holds, in one transaction; hand the rest back.

        Raises, with nothing written, IllegalTransition or IllegalColumn for what is never allowed, and
        FileConflict for an input that is known to be otherwise.
        """
        check(decision)
        if not decision.changes and not decision.choices:
            return Committed()
        documents = Documents(decision)
        committed = self.database.write(
            lambda connection: Commit(connection, decision, documents, actor).run()
        )
        for listener in self.listeners:
            listener(decision, committed)
        return committed

    def save_federation(self, federation: Federation, actor: str) -> int:
        """Make this the federation; returns its version. Loops see it at their next pass."""
        return self._federations.save(federation, actor)

    def federation(self) -> Federation:
        """The federation as of now. Raises :class:`NoFederation`."""
        return self._federations.read()
