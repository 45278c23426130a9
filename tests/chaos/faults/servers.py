"""Faults of servers and of their database."""

import contextlib
import signal
from abc import abstractmethod

import psutil

from tests import postgresql
from tests.acceptance.house import AGENTS, House
from tests.chaos.clocks import JUMPS
from tests.chaos.system import TIMEOUTS

from .fault import Fault
from .signals import send


class _OfAServer(Fault):
    """A fault of one of the servers that run."""

    house: House

    def start(self) -> bool:
        """Begin at a server that is well."""
        with self.system.victims:
            well = [house for house in self.system.houses if house not in self.system.struck]
            # One server stays well: two that are away at once are the fault of its own kind.
            if len(well) < len(self.system.houses):
                return False
            self.house = self.drawn.choice(well)
            self.system.struck.append(self.house)
        self.strike()
        return True

    @abstractmethod
    def strike(self) -> None:
        """Begin at :attr:`house`."""

    def stop(self) -> None:
        """Let the server be well again."""
        try:
            self.heal()
        finally:
            self.system.struck.remove(self.house)

    def heal(self) -> None:
        """End what lasts."""

    def processes(self) -> list[psutil.Process]:
        """Return the server's processes, the first its main one; its pilots have their own."""
        main = psutil.Process(self.house.running["server"].pid)
        return [main, *_without_agents(main)]


class ServerKilled(_OfAServer):
    """``kill -9`` of a server, which starts again later."""

    holds = "the other server goes on with every loop; pilots go on to it"
    span = (0.0, 15.0)

    def strike(self) -> None:
        """Kill the main process; its workers notice."""
        self.house.running["server"].kill()
        self.house.running["server"].wait()

    def heal(self) -> None:
        """Start it again."""
        self.house.start("server")


class ServerFrozen(_OfAServer):
    """A server with all its workers is stopped for up to twice each time-out, and goes on."""

    holds = "the other server goes on with every loop; what the frozen one still says afterwards is refused"
    span = (1.0, 2 * max(TIMEOUTS))

    def strike(self) -> None:
        """Stop all its processes."""
        self.frozen = send(self.processes(), signal.SIGSTOP)

    def heal(self) -> None:
        """Let them go on."""
        send(self.frozen, signal.SIGCONT)


class ServerEnded(_OfAServer):
    """SIGTERM, as in an upgrade; the server starts again later."""

    holds = "it ends by itself, and leaves nothing in hand"
    span = (0.0, 5.0)

    def strike(self) -> None:
        """Ask it to end, and wait until it does."""
        self.house.running["server"].terminate()
        self.system.ended_codes.append(self.house.running["server"].wait(300))

    def heal(self) -> None:
        """Start it again."""
        self.house.start("server")


class WorkerKilled(_OfAServer):
    """``kill -9`` of one of the processes that move files or make calls for a server."""

    holds = "its transfer is tried again"
    span = (0.0, 0.1)

    def strike(self) -> None:
        """Kill one of its children."""
        _, *workers = self.processes()
        if workers:
            send([self.drawn.choice(workers)], signal.SIGKILL)


class ClockJumped(Fault):
    """The clock of a server jumps, and comes back."""

    holds = "the database's clock counts: no lease ends, and nobody seems silent"
    span = (2.0, 20.0)

    def start(self) -> bool:
        """Let a clock jump."""
        self.clock = self.drawn.choice(self.system.clocks)
        self.clock.set(self.drawn.choice(JUMPS))
        return True

    def stop(self) -> None:
        """Show the right time again."""
        self.clock.set(0)


class _OfTheDatabase(Fault):
    """A fault of PostgreSQL, one at a time."""

    holds = "what was committed is there; servers connect again by themselves"
    span = (0.0, 0.1)
    has_stand_in = False

    def start(self) -> bool:
        """Begin, and end at once."""
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

    holds = "what was committed is there; servers connect to the new one by themselves"

    def strike(self) -> None:
        """Promote it."""
        self.system.promote()


class DatabaseRestarted(_OfTheDatabase):
    """PostgreSQL ends all connections and starts again, as in its upgrade."""

    def strike(self) -> None:
        """Restart it."""
        postgresql.restart(self.system.database)


def _without_agents(process: psutil.Process) -> list[psutil.Process]:
    """Return the descendants of a server, without its pilots and what these started."""
    found = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if not AGENTS & set(child.cmdline()):
                found += [child, *_without_agents(child)]
    return found
