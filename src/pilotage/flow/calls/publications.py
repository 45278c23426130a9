"""Ask again for outputs that could not be registered."""

from pilotage.flow.runtime import Runtime
from pilotage.staging import publishing
from pilotage.store.worlds.publications import failed_of


def publish_again(runtime: Runtime, task: int, actor: str) -> int:
    """Ask for all of a task's outputs that are not published; returns how many."""
    asked = 0
    # One world holds so many: what the commit handed back was asked for by somebody else.
    while True:
        world = runtime.world(failed_of(task))
        if not world.publications:
            return asked
        committed = runtime.store.commit(publishing.again(world), actor)
        asked += sum(len(ids) for ids in committed.accepted)
