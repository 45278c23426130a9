"""Request outputs again that could not be registered."""

from pilotage.flow.runtime import Runtime
from pilotage.policies.staging import publishing
from pilotage.store.worlds.publications import failed_of


def publish_again(runtime: Runtime, task: int, actor: str) -> int:
    """Request all unpublished outputs of a task. Return how many."""
    asked = 0
    # One world holds a limited number. Somebody else requested those that the commit handed back.
    while True:
        world = runtime.world(failed_of(task))
        if not world.publications:
            return asked
        committed = runtime.store.commit(publishing.again(world), actor)
        asked += sum(len(ids) for ids in committed.accepted)
