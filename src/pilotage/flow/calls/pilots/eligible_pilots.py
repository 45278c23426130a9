"""Pilots that could take a job that waits for one (P7, P13)."""

from collections.abc import Iterable

from pilotage.model.circuit_breakers.empty_pilots import is_missed
from pilotage.model.records.federation import Queue
from pilotage.model.records.work import Pilot, Requirements
from pilotage.policies.pilots.fitting import fits, needs, promised


def eligible_pilots(queue: Queue, requirements: str, pilots: Iterable[Pilot]) -> list[Pilot]:
    """Return live pilots of a queue that could run such a job with all of their slots free."""
    wanted = Requirements.from_text(requirements)
    needed = needs(wanted, queue)
    return [pilot for pilot in pilots if fits(needed, promised(pilot)) and not is_missed(pilot.lacks, wanted)]
