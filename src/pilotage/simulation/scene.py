"""What all virtual sites of a simulation share."""

from dataclasses import dataclass

from pilotage.flow.calls.storages import rests
from pilotage.flow.runtime import Runtime
from pilotage.model.rules.sources import Sources

from .clock import VirtualClock
from .journal import Journal
from .links import FairLinks
from .payloads import Payloads
from .pilot_calls import PilotCalls


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
        """Return the storages and links, with the currently paused ones (F4)."""
        resting = rests(self.runtime)
        if resting != self.known_sources.rests:
            self.known_sources = Sources(self.known_sources.federation, resting)
        return self.known_sources
