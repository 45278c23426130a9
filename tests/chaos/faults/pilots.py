"""Faults of pilots and of the nodes that they run on."""

import contextlib
import signal
from abc import abstractmethod

import psutil

from tests.chaos.system import TIMEOUTS

from .fault import Fault
from .signals import send


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
        send(reversed([self.agent, *self.agent.children(recursive=True)]), signal.SIGKILL)


class AgentFrozen(_OfAnAgent):
    """A pilot is stopped for up to twice each time-out, and goes on. Its supervisors and payloads run."""

    holds = "its supervisors end its payloads at the end of their lease"
    span = (1.0, 2 * max(TIMEOUTS))

    def strike(self) -> None:
        """Stop it alone."""
        self.frozen = send([self.agent], signal.SIGSTOP)

    def stop(self) -> None:
        """Let it go on."""
        send(self.frozen, signal.SIGCONT)


class NodeFrozen(AgentFrozen):
    """A pilot with its supervisors and payloads is stopped for up to twice each time-out, and goes on."""

    holds = "no payload goes on after its lease"

    def strike(self) -> None:
        """Stop all."""
        self.frozen = send([self.agent, *self.agent.children(recursive=True)], signal.SIGSTOP)
