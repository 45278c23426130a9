"""Downloads of a task's jobs that end with the task, before the next pass of staging finds them (D2)."""

from collections.abc import Collection

from pilotage.flow.runtime import Runtime
from pilotage.model.values.step_names import STAGE
from pilotage.policies.staging import unwanted
from pilotage.store.worlds.staging import downloads_of


def give_up(runtime: Runtime, files: Collection[str]) -> int:
    """Cancel queued downloads of these files that no job waits for any more.

    Return how many. One that moves on meanwhile goes on.
    """
    if not files:
        return 0
    world = runtime.world(downloads_of(files))
    committed = runtime.store.commit(unwanted.cancel_unawaited(world), STAGE)
    return sum(len(ids) for ids in committed.accepted)
