"""Keep pilots in the sites' queues: record them, submit them, look after them (P1 to P10)."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from pilotage.flow.idle_reasons import counted
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Pass, Phase, Step, always
from pilotage.model.decision import Committed, Create, Decision
from pilotage.model.federation import Queue
from pilotage.model.identity import Credential
from pilotage.model.states import JobState, PilotState
from pilotage.model.work import NewPilot, Pilot
from pilotage.model.world import World
from pilotage.pilots import credentials, director, submissions
from pilotage.ports.computing import PilotOrder


def _reads(runtime: Runtime, now: Pass) -> World:
    told, seen = runtime.elements.submissions(), runtime.elements.sightings()
    world = runtime.store.snapshots.for_director(now.time, now.seed)
    return replace(world, submissions=told, sightings=seen)


def _observed(runtime: Runtime, world: World, _: Decision, __: Committed) -> None:
    """Forget what is recorded now, and ask what became of the pilots at their sites."""
    runtime.elements.forget(world.submissions, world.sightings)
    at_site: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in world.pilots:
        if pilot.state in (PilotState.SUBMITTED, PilotState.RUNNING) and pilot.reference:
            at_site[pilot.queue].append(pilot)
    for queue in world.federation.queues:
        if queue.computing_element and queue.name in at_site:
            runtime.elements.look(queue, at_site[queue.name])


def _submit(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Hand recorded pilots to their computing elements."""
    queues = {queue.name: queue for queue in world.federation.queues}
    orders: dict[str, list[PilotOrder]] = defaultdict(list)
    for change, ids in zip(decision.changes, committed.created, strict=True):
        if isinstance(change, Create):
            for record, id_ in zip(change.records, ids, strict=True):
                if isinstance(record, NewPilot) and id_ is not None:
                    orders[record.queue].append(_order(runtime, world, id_, record, queues[record.queue]))
    for name, asked in orders.items():
        runtime.elements.submit(queues[name], asked)


def _order(runtime: Runtime, world: World, pilot: int, record: NewPilot, queue: Queue) -> PilotOrder:
    expires = credentials.enrolment_end(world.time, world.federation.director)
    credential = Credential(role="enrolment", identity=record.owner, pilot=pilot, expires=expires)
    return PilotOrder(
        pilot=pilot,
        name=f"{world.federation.name}-pilot-{pilot}",
        token=runtime.store.tokens.create(credential),
        server_url=runtime.server_url,
        cores=record.cores,
        memory=record.memory,
        walltime=record.walltime,
        slots=queue.computing_element.pilot_slots if queue.computing_element else 1,
    )


def _idle(world: World) -> Iterator[str]:
    waiting = sum(entry.jobs for entry in world.task_queues)
    if not waiting:
        yield "no job is activated, so none waits for a pilot"
        return
    served = {queue.name for queue in world.federation.queues if queue.computing_element}
    without = sorted({entry.queue for entry in world.task_queues if entry.jobs} - served)
    if without:
        yield f"no pilots are started from here at {', '.join(without)}"
    yield f"{counted(waiting, 'job')} waiting for pilots; the draw (P3), the bound (P4) or the room gave none"


STEP = Step(
    name="provision",
    place=6,
    summary="Keep pilots in the sites' queues.",
    reads=_reads,
    phases=always(
        Phase(actor="provision", decide=submissions.observed, act=_observed),
        Phase(actor="provision", decide=director.provision, act=_submit),
    ),
    idle=_idle,
    wakes_on=frozenset(
        {
            ("job", JobState.ACTIVATED),
            ("pilot", PilotState.FINISHED),
            ("pilot", PilotState.FAILED),
            ("pilot", PilotState.CANCELLED),
        }
    ),
)
