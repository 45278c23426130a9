"""The parts that all virtual sites of a simulation share."""

from dataclasses import dataclass

from pilotage.flow.runtime import Runtime
from pilotage.model.sources import Sources

from .clock import VirtualClock
from .journal import Journal
from .links import FairLinks
from .payloads import Payloads
from .pilot_calls import PilotCalls


@dataclass(slots=True)
class Scene:
    """The parts that all virtual sites of a simulation share; times are counted from ``begin``."""

    runtime: Runtime
    calls: PilotCalls
    clock: VirtualClock
    journal: Journal
    payloads: Payloads
    links: FairLinks
    sources: Sources
    begin: float
    seed: int
