"""Tasks of brokerage plugins that this server lacks are left to servers that have them."""

from typing import TYPE_CHECKING

from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.rules.plugins import plugin_of

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime


def without_unserved(runtime: "Runtime", step: str, world: World) -> World:
    """Return the world of a step that asks plugins, without tasks of plugins that this server lacks.

    They take no room of others: the step's next pass, which follows immediately, skips them until the server
    looks for the plugin again or the federation changes.
    """
    names = {task.id: plugin_of(task.spec, task.owner.vo, world.federation) for task in world.tasks}
    lacks, limit = runtime.brokerages.lacks, runtime.time_limit
    lacking = {name for name in set(names.values()) if lacks(world.federation, name, world.time, limit)}
    unserved_tasks = {task for task, name in names.items() if name in lacking}
    if not unserved_tasks:
        return world
    runtime.brokerages.leave(unserved_tasks, world.time)
    runtime.wakeups.wake(step)
    return TASK.without(world, unserved_tasks)
