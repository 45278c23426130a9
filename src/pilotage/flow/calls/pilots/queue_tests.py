"""Test a queue: send one pilot there, which describes its node."""

from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.runtime import Runtime
from pilotage.model.values.identity import Identity
from pilotage.model.values.step_names import PROVISION
from pilotage.policies.pilots import queue_test_pilots
from pilotage.store.pilots.world import live_and_ended_pilots


def no_queue(name: str) -> NotThere:
    """Return the refusal of an unknown queue."""
    return NotThere(f"there is no queue {name!r}; pilotage queues lists them")


def send(runtime: Runtime, queue: str, who: Identity, actor: str) -> int:
    """Return the number of a pilot that tests the queue: the one under way, or a new one.

    Raises ``NotThere``, and ``NotNow`` if no pilot can be sent there.
    """
    world = runtime.world(live_and_ended_pilots)
    target = next((target for target in world.federation.queues if target.name == queue), None)
    if target is None:
        raise no_queue(queue)
    if target.computing_element is None:
        raise NotNow(f"queue {queue} has no computing_element: others start its pilots, so none can be sent")
    if target.forwards:
        raise NotNow(f"queue {queue} hands its jobs to another Pilotage: test the queues there")
    under_way = queue_test_pilots.live_test_pilot(world, queue)
    if under_way:
        return under_way.id
    committed = runtime.store.commit(queue_test_pilots.send(world, target, who), actor)
    runtime.wakeups.wake(PROVISION)
    ((pilot,),) = committed.created
    assert pilot is not None, "nothing limits a test pilot"
    return pilot
