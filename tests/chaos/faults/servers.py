"""Faults of servers, and what people do to them."""

import contextlib
import os
import signal
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import psutil

from tests import postgresql
from tests.acceptance.house import AGENTS, House
from tests.chaos.clocks import JUMPS
from tests.chaos.system import TIMEOUTS

from .fault import Fault
from .signals import send

MINUTES = (20.0, 150.0)
"""Least and most seconds for which all servers are away: far longer than any payload runs."""

BREAK = 30.0
"""Least seconds between two faults of all servers: people and pilots find them in between."""


class _OfServers(Fault):
    """A fault of one of the servers, or of all. No two such faults strike at once."""

    all_at_once: ClassVar[bool] = False
    houses: list[House]

    def start(self) -> bool:
        """Begin, if all servers are well."""
        if self.all_at_once and time.monotonic() < self.system.together_until + BREAK:
            return False
        if not self.system.servers_turn.acquire(blocking=False):
            return False
        numbers = range(len(self.system.houses))
        self.away = set(numbers) if self.all_at_once else {self.drawn.choice(numbers)}
        self.houses = [self.system.houses[at] for at in sorted(self.away)]
        try:
            self.strike()
        except BaseException:
            self.stop()
            raise
        return True

    @abstractmethod
    def strike(self) -> None:
        """Begin at ``houses``."""

    def stop(self) -> None:
        """Let the servers be well again."""
        try:
            self.heal()
        finally:
            if self.all_at_once:
                self.system.together_until = time.monotonic()
            self.system.servers_turn.release()

    def heal(self) -> None:
        """End what lasts."""

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the servers' processes, each main one before its workers; pilots have their own."""
        for house in self.houses:
            main = psutil.Process(house.running["server"].pid)
            yield from (main, *_without_agents(main))

    def begin_again(self) -> None:
        """Start the servers again, and wait until they answer."""
        for house in self.houses:
            house.start("server")
        for house in self.houses:
            try:
                house.call("GET", "/health/ready")
            except AssertionError:
                if house.running["server"].poll() is None:
                    raise
                # It gives up if the database is away at its start. Service managers start it once more.
                house.start("server")
                house.call("GET", "/health/ready")

    def ask_to_end(self) -> None:
        """Ask the servers to end (SIGTERM), and wait until they do."""
        for house in self.houses:
            house.running["server"].terminate()
        self.system.ended_codes += [house.running["server"].wait(300) for house in self.houses]


class ServerKilled(_OfServers):
    """``kill -9`` of a server, which starts again later."""

    holds = "the other server runs every loop; pilots call it"
    span = (0.0, 15.0)

    def strike(self) -> None:
        """Kill the main process; its workers notice."""
        for house in self.houses:
            house.running["server"].kill()
            house.running["server"].wait()

    def heal(self) -> None:
        """Start it again."""
        self.begin_again()


class ServerFrozen(_OfServers):
    """A server with all its workers is stopped for up to twice each time-out, and goes on."""

    holds = "the other server runs every loop; the database refuses what the frozen one writes afterwards"
    span = (1.0, 2 * max(TIMEOUTS))

    def strike(self) -> None:
        """Stop all its processes."""
        self.frozen = send(self.processes(), signal.SIGSTOP)

    def heal(self) -> None:
        """Let them go on."""
        send(self.frozen, signal.SIGCONT)


class ServerEnded(_OfServers):
    """SIGTERM, as in an upgrade; the server starts again later."""

    holds = "it ends by itself, and leaves no work unfinished"
    span = (0.0, 5.0)

    def strike(self) -> None:
        """Ask it to end, and wait until it does."""
        self.ask_to_end()

    def heal(self) -> None:
        """Start it again."""
        self.begin_again()


class ServersStopped(ServerEnded):
    """All servers end for minutes, while payloads go on and end."""

    holds = "outputs of payloads that ended in this time are delivered, while the pilot or its spool exists"
    span = MINUTES
    is_absence = True
    all_at_once = True


class LidClosed(ServerFrozen):
    """All servers sleep for minutes, and lose their SSH connections, like a laptop with a closed lid."""

    holds = "outputs of payloads that ended in this time are delivered; pilots reach the server again"
    span = MINUTES
    is_absence = True
    all_at_once = True
    site = "west"

    def strike(self) -> None:
        """Stop all their processes, and cut their connections."""
        super().strike()
        if self.system.real.login:
            self.system.real.login.cut()


class StoreRestored(_OfServers):
    """While jobs are under way, a backup moves the store into an empty database."""

    holds = "all work continues; new pilots replace the earlier ones"
    span = (0.0, 0.1)
    all_at_once = True

    def strike(self) -> None:
        """Back up, empty and restore, with the servers ended."""
        self.ask_to_end()
        with self.system.database_turn:
            file = self.system.place / f"backup-{self.drawn.getrandbits(31)}"
            self._store("backup", file)
            self.system.empty_database()
            self._store("restore", file)

    def heal(self) -> None:
        """Start all servers again."""
        self.begin_again()

    def _store(self, verb: str, file: object) -> None:
        # No fault of the network disturbs a person who does this with care.
        variables = {
            "PILOTAGE_STORE": self.system.quiet_store,
            "PATH": f"{postgresql.PROGRAMS}:{os.environ['PATH']}",
        }
        told = self.houses[0].command("store", verb, str(file), **variables)
        assert ("MB" in told) if verb == "backup" else ("next: pilotage up" in told), told


class WorkerKilled(_OfServers):
    """``kill -9`` of one of the processes that move files or make calls for a server."""

    holds = "its transfer is tried again"
    span = (0.0, 0.1)

    def strike(self) -> None:
        """Kill one of its children."""
        self.away = ()
        _, *workers = self.processes()
        if workers:
            send([self.drawn.choice(workers)], signal.SIGKILL)


class LookedAt(Fault):
    """An operator looks, by ``doctor`` and ``stuck``, and tests a queue."""

    holds = "commands that only read change nothing: pilots reach their server as before"
    span = (0.0, 0.1)
    site = "west"

    def start(self) -> bool:
        """Look from the home of one server."""
        house = self.drawn.choice(self.system.houses)
        queue = f"{self.site}-queue"
        for words in (("doctor",), ("stuck",), ("queues", "test", queue, "--timeout", "5")):
            told = house.command(*words)
            assert "Traceback" not in told, told
            assert "report it as a bug" not in told, told
        return True


class ClockJumped(Fault):
    """The clock of a server jumps, and comes back."""

    holds = "the database's clock counts: no lease ends, and no pilot counts as silent"
    span = (2.0, 20.0)

    def start(self) -> bool:
        """Let a clock jump."""
        self.clock = self.drawn.choice(self.system.clocks)
        self.clock.set(self.drawn.choice(JUMPS))
        return True

    def stop(self) -> None:
        """Show the right time again."""
        self.clock.set(0)


def _without_agents(process: psutil.Process) -> list[psutil.Process]:
    """Return the descendants of a server, without its pilots and what these started."""
    found = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if not AGENTS & set(child.cmdline()):
                found += [child, *_without_agents(child)]
    return found
