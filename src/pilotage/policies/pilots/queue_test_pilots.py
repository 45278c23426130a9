"""Test pilots: an operator sends one to a queue to learn what its nodes have."""

from pilotage.model.documents.decision import Create, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Queue
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.records.work import NewPilot, Pilot, PilotKind
from pilotage.model.values.identity import GENERIC, Identity
from pilotage.model.values.step_names import PROVISION
from pilotage.policies.pilots import owner_credentials
from pilotage.policies.pilots.circuit_breakers import server_names
from pilotage.policies.pilots.task_queues import element_of, size

_REASON = "test of its queue by "


def is_test_pilot(pilot: Pilot | NewPilot) -> bool:
    """Return whether a pilot was sent to test its queue."""
    return pilot.reason.startswith(_REASON)


def live_test_pilot(world: World, queue: str) -> Pilot | None:
    """Return the live test pilot of a queue; None if there is none."""
    pilots = (
        pilot
        for pilot in world.pilots
        if pilot.queue == queue and pilot.state in LIVE_PILOTS and is_test_pilot(pilot)
    )
    return next(pilots, None)


def send(world: World, queue: Queue, who: Identity) -> Decision:
    """Create a test pilot, even if no jobs wait at the queue or a circuit breaker holds pilots back.

    It is an ordinary pilot of one slot, so it takes jobs if some wait.
    """
    element = element_of(queue)
    kind: PilotKind = "generic" if "generic" in element.pilot_kinds else "private"
    requirements = Requirements.of(TaskSpec(name="test", cores=queue.cores), who)
    cores, memory, walltime = size(requirements, queue, 1)
    pilot = NewPilot(
        queue=queue.name,
        requirements=requirements.text,
        kind=kind,
        owner=GENERIC if kind == "generic" else who,
        cores=cores,
        memory=memory,
        walltime=walltime,
        site=queue.site,
        element=element.kind,
        broker=server_names(queue)[0],
        credential=owner_credentials.credential_of(queue, requirements, kind),
        submit_pool=world.federation.director.default_submit_pools[0],
        reason=f"{_REASON}{who.name}",
    )
    sent = Create(records=(pilot,), cause=pilot.reason)
    return Decision(step=PROVISION, time=world.time, seed=world.seed, changes=(sent,))
