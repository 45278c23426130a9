"""Pilots that could take a job that waits for one (P7, P13)."""

from collections.abc import Iterable

from pilotage.model.federation import Queue
from pilotage.model.work import Pilot, Requirements
from pilotage.pilots.lacking import is_missed
from pilotage.pilots.task_queues import may_run, walltime_needed


def takers(queue: Queue, requirements: str, pilots: Iterable[Pilot]) -> list[Pilot]:
    """Live pilots of a queue that could run such a job, were all of their slots free."""
    wanted = Requirements.from_text(requirements)
    return [
        pilot
        for pilot in pilots
        if may_run(pilot.kind, pilot.owner, wanted)
        and wanted.cores <= pilot.cores
        and (not pilot.memory or wanted.memory <= pilot.memory)
        and walltime_needed(wanted, queue) <= pilot.walltime
        and not is_missed(pilot.lacks, wanted)
    ]
