"""Demand for pilots: task queues as columns, and the shares of their owners (P1, P2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.model.federation import Queue
from pilotage.model.states import WAITING_PILOTS
from pilotage.model.work import Pilot, Requirements
from pilotage.model.world import TaskQueue, World

from .apportionment import Floats, Ints
from .draws import owner_shares
from .task_queues import element_of, seconds_at, starts_pilots


@dataclass(frozen=True, slots=True)
class Demand:
    """Task queues with jobs at queues that start pilots, one a row, by queue and requirements.

    ``shares`` are priorities. Those of one owner are together the highest of them: a share belongs to its
    owner, however many task queues, or queues, the work is spread over. ``seconds`` are the walltime of a
    job at its queue, ``worth`` the pilots that would take all its jobs at once.
    """

    entries: Sequence[TaskQueue]
    wanted: Sequence[Requirements]
    queues: Sequence[Queue]
    jobs: Ints
    shares: Floats
    seconds: Floats
    worth: Ints

    def rows(self) -> list[tuple[Queue, slice]]:
        """The rows of each queue."""
        found: list[tuple[Queue, slice]] = []
        start = 0
        for at in range(1, len(self.queues) + 1):
            if at == len(self.queues) or self.queues[at].name != self.queues[start].name:
                found.append((self.queues[start], slice(start, at)))
                start = at
        return found


def demand(world: World, wanted: Mapping[str, Requirements]) -> Demand:
    """The task queues that take part; ``wanted`` has the requirements of each by their text."""
    served = {queue.name: queue for queue in world.federation.queues if starts_pilots(queue)}
    busy = sorted(
        (entry for entry in world.task_queues if entry.jobs > 0 and entry.queue in served),
        key=lambda entry: (entry.queue, entry.requirements),
    )
    queues = [served[entry.queue] for entry in busy]
    asked = [wanted[entry.requirements] for entry in busy]
    jobs = np.array([entry.jobs for entry in busy], dtype=np.int64)
    slots = np.array([element_of(queue).pilot_slots for queue in queues], dtype=np.int64)
    return Demand(
        entries=busy,
        wanted=asked,
        queues=queues,
        jobs=jobs,
        shares=_shares(busy, asked),
        seconds=np.array([seconds_at(one, queue) for one, queue in zip(asked, queues, strict=True)]),
        # Rounded up.
        worth=-(-jobs // slots),
    )


def _shares(busy: Sequence[TaskQueue], wanted: Sequence[Requirements]) -> Floats:
    """Priorities as shares of their owners."""
    numbers: dict[tuple[str, str, str], int] = {}
    owners = [numbers.setdefault((one.vo, one.group, one.owner), len(numbers)) for one in wanted]
    # Priority 0 is work as well: it has the smallest share, not none.
    priorities = np.array([max(1, entry.priority) for entry in busy], dtype=np.float64)
    return owner_shares(priorities, np.array(owners, dtype=np.int64))


def is_believed(world: World, pilot: Pilot) -> bool:
    """Tell whether a pilot counts: one that has waited too long at its site does not (P4)."""
    longest = world.federation.director.max_pilot_waiting_hours * 3600
    return pilot.state not in WAITING_PILOTS or world.time - pilot.created <= longest
