"""The faults of a storm. Each is a class: how it starts, how it stops, and what must hold nevertheless."""

import contextlib
import random
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import psutil

from tests import postgresql
from tests.acceptance.house import AGENTS, House

from .system import SITES, TIMEOUTS, System


class Fault(ABC):
    """Something that goes wrong for some seconds. ``drawn`` chooses its victim."""

    holds: ClassVar[str]
    """What must hold beside the verdict on the whole storm."""
    span: ClassVar[tuple[float, float]]
    """Least and most seconds that it lasts."""
    has_stand_in: ClassVar[bool] = True
    """Whether work goes on while it lasts: recovery is counted from its start, otherwise from its stop."""

    def __init__(self, system: System, drawn: random.Random) -> None:
        self.system, self.drawn = system, drawn

    @abstractmethod
    def start(self) -> bool:
        """Begin. Returns False if there is no victim now."""

    def stop(self) -> None:  # noqa: B027
        """End what lasts; most faults are over at once."""


class Nothing(Fault):
    """No fault: how long new work takes by itself, for comparison."""

    holds = "everything"
    span = (0.0, 0.1)

    def start(self) -> bool:
        """Do nothing."""
        return True


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
        self.frozen = _signal(self.processes(), signal.SIGSTOP)

    def heal(self) -> None:
        """Let them go on."""
        _signal(self.frozen, signal.SIGCONT)


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
            _signal([self.drawn.choice(workers)], signal.SIGKILL)


class DatabaseKilled(Fault):
    """``kill -9`` of PostgreSQL with all its processes, and a new start."""

    holds = "what was committed is there; servers connect again by themselves"
    span = (0.0, 0.1)
    has_stand_in = False

    def start(self) -> bool:
        """Kill it, and start it again at once."""
        with self.system.database_turn:
            postgresql.restart_after_kill(self.system.database)
        return True


class DatabaseRestarted(Fault):
    """PostgreSQL ends all connections and starts again, as in its upgrade."""

    holds = "what was committed is there; servers connect again by themselves"
    span = (0.0, 0.1)
    has_stand_in = False

    def start(self) -> bool:
        """Restart it."""
        with self.system.database_turn:
            postgresql.restart(self.system.database)
        return True


class _OfAnAgent(Fault):
    """A fault of a pilot that runs, alone or with all that it started."""

    agent: psutil.Process

    def start(self) -> bool:
        """Begin at a pilot."""
        agents = self.system.agents()
        if not agents:
            return False
        self.agent = self.drawn.choice(agents)
        with contextlib.suppress(psutil.NoSuchProcess):
            self.strike()
        return True

    @abstractmethod
    def strike(self) -> None:
        """Begin at :attr:`agent`."""


class AgentKilled(_OfAnAgent):
    """``kill -9`` of a pilot's process."""

    holds = "its payloads end with it, before another attempt of their jobs begins"
    span = (0.0, 0.1)

    def strike(self) -> None:
        """Kill it alone."""
        self.agent.kill()


class NodeLost(_OfAnAgent):
    """``kill -9`` of a pilot with its supervisors and payloads."""

    holds = "its jobs begin again elsewhere after the heartbeat time-out"
    span = (0.0, 0.1)

    def strike(self) -> None:
        """Kill all, from the leaves up."""
        _signal(reversed([self.agent, *self.agent.children(recursive=True)]), signal.SIGKILL)


class AgentFrozen(_OfAnAgent):
    """A pilot is stopped for up to twice each time-out, and goes on. Its supervisors and payloads run."""

    holds = "its supervisors end its payloads at the end of their lease"
    span = (1.0, 2 * max(TIMEOUTS))

    def strike(self) -> None:
        """Stop it alone."""
        self.frozen = _signal([self.agent], signal.SIGSTOP)

    def stop(self) -> None:
        """Let it go on."""
        _signal(self.frozen, signal.SIGCONT)


class NodeFrozen(AgentFrozen):
    """A pilot with its supervisors and payloads is stopped for up to twice each time-out, and goes on."""

    holds = "no payload goes on after its lease"

    def strike(self) -> None:
        """Stop all."""
        self.frozen = _signal([self.agent, *self.agent.children(recursive=True)], signal.SIGSTOP)


class FederationReloaded(Fault):
    """Another version of the federation comes into force."""

    holds = "work goes on"
    span = (0.0, 0.1)

    def start(self) -> bool:
        """Put it in force."""
        self.system.reload()
        return True


class Drained(Fault):
    """Somebody drains or closes a site, a queue or a storage, and opens it again."""

    holds = "jobs that wait there move; others end"
    span = (1.0, 20.0)
    has_stand_in = False

    def start(self) -> bool:
        """Drain or close a place."""
        site = self.drawn.choice(SITES)
        self.path = self.drawn.choice((f"site/{site}", f"queue/{site}-queue", f"storage/{site}-disk"))
        body = {"mode": self.drawn.choice(("drain", "close")), "because": "a storm"}
        self.system.call("PUT", f"/restrictions/{self.path}", body)
        return True

    def stop(self) -> None:
        """Open it."""
        self.system.call("DELETE", f"/restrictions/{self.path}")


KINDS: dict[str, type[Fault]] = {
    "nothing": Nothing,
    "server killed": ServerKilled,
    "server frozen": ServerFrozen,
    "server ended": ServerEnded,
    "worker killed": WorkerKilled,
    "database killed": DatabaseKilled,
    "database restarted": DatabaseRestarted,
    "pilot killed": AgentKilled,
    "pilot frozen": AgentFrozen,
    "node lost": NodeLost,
    "node frozen": NodeFrozen,
    "federation reloaded": FederationReloaded,
    "place drained": Drained,
}
"""All faults by the name in reports."""


def _without_agents(process: psutil.Process) -> list[psutil.Process]:
    """Return the descendants of a server, without its pilots and what these started."""
    found = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if not AGENTS & set(child.cmdline()):
                found += [child, *_without_agents(child)]
    return found


def _signal(processes: Iterable[psutil.Process], number: int) -> list[psutil.Process]:
    """Send a signal to all of these that are there, and return them."""
    sent = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            sent.append(process)
    return sent
