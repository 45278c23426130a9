"""The director: how many pilots each task queue is given, and of what kind and size (P1 to P4, P7, P10)."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import ceil, inf

from numpy.random import Generator

from pilotage.model.counters import PILOTS_BY_QUEUE
from pilotage.model.decision import Claim, Create, Decision
from pilotage.model.federation import ComputingElement, DirectorConstants, Queue
from pilotage.model.identity import Identity
from pilotage.model.states import LIVE_PILOTS, PilotState
from pilotage.model.work import NewPilot, Pilot, Requirements
from pilotage.model.world import TaskQueue, World

from .task_queues import is_open, randomness, walltime_needed

GENERIC = Identity(name="generic")
"""Whom generic pilots belong to: nobody's work is theirs alone."""

WAITING = (PilotState.CREATED, PilotState.SUBMITTED)


@dataclass(frozen=True, slots=True)
class Want:
    """Derivation of a task queue's pilots: the mean and draw of P3, the bound and waiting pilots of P4."""

    queue: str
    requirements: str
    jobs: int
    priority: int
    mean: float
    target: int
    bound: int
    waiting: int
    submitted: int = 0

    @property
    def wanted(self) -> int:
        """Pilots asked for, before the room at the queue is shared."""
        return max(0, min(self.target, self.bound - self.waiting))


_FIELDS = tuple(field.name for field in fields(Want))


def provision(world: World) -> Decision:
    """Pilots for the task queues that wait, written down before anything is submitted (P10).

    Only task queues with jobs take part, at queues that are open and have a computing element. Room under
    a queue's ``max_pilots`` is shared among its task queues at random, in proportion to what they ask for.
    ``notes`` tells how each number came about.
    """
    served = {
        queue.name: queue for queue in world.federation.queues if queue.computing_element and is_open(queue)
    }
    busy = sorted(
        (entry for entry in world.task_queues if entry.jobs > 0 and entry.queue in served),
        key=lambda entry: (entry.queue, entry.requirements),
    )
    wants: dict[str, list[Want]] = defaultdict(list)
    for want in _wants(world, busy, served):
        wants[want.queue].append(want)
    changes: list[Create] = []
    notes: list[dict[str, object]] = []
    random = randomness(world, "private")
    present: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in world.pilots:
        present[pilot.queue].append(pilot)
    for name, asked in wants.items():
        for want, pilots in zip(asked, _shared(world, served[name], asked, present[name]), strict=True):
            notes.append({field: getattr(want, field) for field in _FIELDS} | {"submitted": pilots})
            if pilots:
                changes.append(_create(world, served[name], want, pilots, random))
    return Decision(
        step="provision",
        time=world.time,
        seed=world.seed,
        changes=tuple(changes),
        notes={"task_queues": notes},
    )


def _wants(world: World, busy: Sequence[TaskQueue], served: dict[str, Queue]) -> list[Want]:
    """P2 to P4 for each task queue."""
    constants = world.federation.director
    priorities = sum(entry.priority for entry in busy)
    jobs = sum(entry.jobs for entry in busy)
    waiting = _waiting(world)
    means = []
    for entry in busy:
        share = constants.pilots_per_iteration * (entry.priority / priorities + entry.jobs / jobs)
        cpu_time = max(Requirements.from_text(entry.requirements).cpu_time, constants.lowest_cpu_boost)
        means.append(share * constants.max_cpu / cpu_time)
    # One draw for all, which stand in a stable order: a generator for each takes longer than all the rest.
    targets = randomness(world, "provision").poisson(means).tolist()
    wants = []
    for entry, mean, target in zip(busy, means, targets, strict=True):
        wants.append(
            Want(
                queue=entry.queue,
                requirements=entry.requirements,
                jobs=entry.jobs,
                priority=entry.priority,
                mean=mean,
                target=target,
                bound=_bound(entry.jobs, _element(served[entry.queue]), constants),
                waiting=waiting[entry.queue, entry.requirements],
            )
        )
    return wants


def _waiting(world: World) -> Counter[tuple[str, str]]:
    """Pilots by task queue that wait at their site and have not waited too long to be believed (P4)."""
    longest = world.federation.director.max_pilot_waiting_hours * 3600
    return Counter(
        (pilot.queue, pilot.requirements)
        for pilot in world.pilots
        if pilot.state in WAITING and world.time - pilot.created <= longest
    )


def _bound(jobs: int, element: ComputingElement, constants: DirectorConstants) -> int:
    """The most pilots that may wait for so many jobs (P4); each runs ``pilot_slots`` of them side by side."""
    pilots_worth = ceil(jobs / element.pilot_slots)
    return int((1 + constants.extra_pilot_fraction) * pilots_worth) + constants.extra_pilots


def _shared(world: World, queue: Queue, asked: Sequence[Want], present: Sequence[Pilot]) -> list[int]:
    """The pilots of each task queue of one queue, in all no more than there is room for.

    None takes part with more than the whole room, so that one with many jobs leaves the others a chance.
    """
    room = _room(world, queue, present)
    wanted = [min(want.wanted, room) for want in asked]
    if sum(wanted) <= room:
        return wanted
    drawn = randomness(world, "provision", queue.name).multivariate_hypergeometric(wanted, room)
    return [int(pilots) for pilots in drawn]


def _room(world: World, queue: Queue, here: Sequence[Pilot]) -> int:
    """Room for new pilots at a queue: up to ``max_pilots``, fewer where they fail there (P6)."""
    live = sum(1 for pilot in here if pilot.state in LIVE_PILOTS)
    room = max(0, _element(queue).max_pilots - live)
    well = max((pilot.created for pilot in here if pilot.heartbeat is not None), default=-inf)
    failures = {
        pilot.since
        for pilot in here
        if pilot.state is PilotState.FAILED and pilot.heartbeat is None and pilot.created > well
    }
    if not failures:
        return room
    over = world.time - max(failures) >= world.federation.director.rest(len(failures))
    tried = any(pilot.state in WAITING for pilot in here)
    return min(room, 1) if over and not tried else 0


def _create(world: World, queue: Queue, want: Want, pilots: int, random: Generator) -> Create:
    """New pilots of one task queue; of each number a fraction is private, all where the work is (P7)."""
    element = _element(queue)
    wanted = Requirements.from_text(want.requirements)
    fraction = 1.0 if wanted.private else world.federation.director.private_pilot_fraction
    private = int(random.binomial(pilots, fraction))
    records = (_pilot(queue, want, private=True),) * private
    records += (_pilot(queue, want, private=False),) * (pilots - private)
    limit = Claim(counter=PILOTS_BY_QUEUE, key=(queue.name,), states=LIVE_PILOTS, limit=element.max_pilots)
    return Create(records=records, cause=f"{want.jobs} jobs wait for pilots", claims=(limit,))


def _pilot(queue: Queue, want: Want, *, private: bool) -> NewPilot:
    element = _element(queue)
    wanted = Requirements.from_text(want.requirements)
    owner = Identity(name=wanted.owner, vo=wanted.vo, group=wanted.group)
    return NewPilot(
        queue=queue.name,
        requirements=want.requirements,
        kind="private" if private else "generic",
        owner=owner if private else GENERIC,
        cores=wanted.cores * element.pilot_slots,
        memory=max(wanted.memory, queue.min_memory) * element.pilot_slots,
        walltime=pilot_walltime(wanted, queue),
    )


def pilot_walltime(wanted: Requirements, queue: Queue) -> float:
    """Walltime of a pilot in s: its computing element's, or more where its own task queue needs it."""
    longest = queue.max_walltime or inf
    return min(max(_element(queue).pilot_walltime, walltime_needed(wanted, queue)), longest)


def _element(queue: Queue) -> ComputingElement:
    if queue.computing_element is None:
        raise ValueError(f"queue {queue.name!r} has no computing element, so no pilot can reach it")
    return queue.computing_element
