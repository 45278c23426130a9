"""Faults of the servers' database."""

from abc import abstractmethod

from tests import postgresql

from .fault import Fault


class _OfTheDatabase(Fault):
    """A fault of PostgreSQL, one at a time."""

    holds = "committed records are there; servers connect again by themselves"
    span = (0.0, 0.1)

    def start(self) -> bool:
        """Begin, and end at once."""
        self.away = range(len(self.system.houses))
        with self.system.database_turn:
            self.strike()
        return True

    @abstractmethod
    def strike(self) -> None:
        """Begin at the system's database."""


class DatabaseKilled(_OfTheDatabase):
    """``kill -9`` of PostgreSQL with all its processes, and a new start."""

    def strike(self) -> None:
        """Kill it, and start it again."""
        postgresql.restart_after_kill(self.system.database)


class ReplicaPromoted(_OfTheDatabase):
    """``kill -9`` of PostgreSQL; its replica takes over, and gets one of its own."""

    holds = "committed records are there; servers connect to the new one by themselves"

    def strike(self) -> None:
        """Promote it."""
        self.system.promote()


class DatabaseRestarted(_OfTheDatabase):
    """PostgreSQL ends all connections and starts again, as in its upgrade."""

    def strike(self) -> None:
        """Restart it."""
        postgresql.restart(self.system.database)
