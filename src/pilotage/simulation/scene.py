"""What all virtual sites of a simulation share."""

from dataclasses import dataclass

from pilotage.flow.calls.places.circuit_breakers import of_storages
from pilotage.flow.runtime import Runtime
from pilotage.model.rules.sources import Sources
from pilotage.simulation.clock import VirtualClock
from pilotage.simulation.journal import Journal
from pilotage.simulation.links import FairLinks
from pilotage.simulation.payloads import Payloads
from pilotage.simulation.pilot_calls import PilotCalls


@dataclass(slots=True)
class Scene:
    """What all virtual sites of a simulation share. Times count from ``begin``."""

    runtime: Runtime
    calls: PilotCalls
    clock: VirtualClock
    journal: Journal
    payloads: Payloads
    links: FairLinks
    known_sources: Sources
    begin: float
    seed: int

    def sources(self) -> Sources:
        """Return the storages and links, with their circuit breakers now (F4)."""
        breakers = of_storages(self.runtime)
        if breakers != self.known_sources.breakers:
            self.known_sources = Sources(self.known_sources.federation, breakers)
        return self.known_sources
