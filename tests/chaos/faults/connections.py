"""Faults of the network between pilots, servers and their database."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from tests.chaos.proxy import Mode, Proxy
from tests.chaos.system import HEARTBEAT, TIMEOUTS

from .fault import Fault


class _OfAConnection(Fault):
    """A proxy does something else than to forward."""

    mode: ClassVar[Mode]

    def proxies(self) -> Sequence[Proxy]:
        """Return the proxies of which one or all are concerned."""
        return [self.drawn.choice(self.system.api_proxies)]

    def start(self) -> bool:
        """Change the mode, unless another fault did."""
        with self.system.victims:
            self.chosen = self.proxies()
            if any(proxy.mode != "open" for proxy in self.chosen):
                return False
            for proxy in self.chosen:
                proxy.set(self.mode)
            self.away = self.servers()
        return True

    def servers(self) -> Collection[int]:
        """Return the servers by number that are out of reach."""
        return [at for at, proxy in enumerate(self.system.api_proxies) if proxy in self.chosen]

    def stop(self) -> None:
        """Forward again."""
        for proxy in self.chosen:
            proxy.set("open")


class PilotsCut(_OfAConnection):
    """No pilot reaches one of the servers."""

    holds = "pilots call the other server"
    span = (1.0, 2 * HEARTBEAT)
    mode: ClassVar[Mode] = "cut"


class PilotsSlowed(_OfAConnection):
    """Each part of a call to one of the servers takes longer."""

    holds = "work continues"
    span = (1.0, 2 * HEARTBEAT)
    mode: ClassVar[Mode] = "slow"


class PilotsUnheard(_OfAConnection):
    """Connections to one of the servers stay, and nothing passes (half-open)."""

    holds = "pilots call the other server"
    span = (1.0, 2 * max(TIMEOUTS))
    mode: ClassVar[Mode] = "silent"


class PilotsRepeated(_OfAConnection):
    """One of the servers gets each call a second time, after later ones."""

    holds = "a report that comes twice or late changes nothing"
    span = (1.0, 20.0)
    mode: ClassVar[Mode] = "twice"


class PilotsAlone(_OfAConnection):
    """No pilot reaches any server."""

    holds = "each payload ends at the end of its lease, before another attempt begins"
    span = (1.0, 2 * HEARTBEAT)
    mode: ClassVar[Mode] = "cut"

    def proxies(self) -> Sequence[Proxy]:
        """Return those of both servers."""
        return self.system.api_proxies


class DatabaseCut(_OfAConnection):
    """No server reaches the database."""

    holds = "servers connect again by themselves"
    span = (0.5, 10.0)
    mode: ClassVar[Mode] = "cut"

    def proxies(self) -> Sequence[Proxy]:
        """Return the database's."""
        return [self.system.database_proxy]

    def servers(self) -> Collection[int]:
        """Return all."""
        return range(len(self.system.houses))


class DatabaseSlowed(DatabaseCut):
    """Each part of a statement takes longer."""

    holds = "work continues"
    mode: ClassVar[Mode] = "slow"


class DatabaseUnheard(DatabaseCut):
    """Connections to the database stay, and nothing passes (half-open)."""

    holds = "servers notice it, and connect again"
    span = (1.0, 2 * max(TIMEOUTS))
    mode: ClassVar[Mode] = "silent"
