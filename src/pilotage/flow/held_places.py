"""Places at sites that jobs of brokerages with cycles wait for, so that no other plugin takes them (M8)."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pilotage.flow.reads import ProcessFields
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import HeldPlaces
from pilotage.model.rules.plugins import plugin_of

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime

log = logging.getLogger(__name__)


def _read(runtime: "Runtime", world: World) -> Mapping[str, Any]:
    return {"held_places": tuple(_list_held_places(runtime, world)) if world.ahead else ()}


def _list_held_places(runtime: "Runtime", world: World) -> Iterator[HeldPlaces]:
    """Yield the places that each plugin with cycles holds for its waiting jobs."""
    waiting = {job.task for job in world.ahead}
    plugins = {task.id: plugin_of(task.spec, task.owner.vo, world.federation) for task in world.tasks}
    for name in sorted({plugins[task] for task in waiting if task in plugins}):
        other_tasks = {task for task, plugin in plugins.items() if plugin != name}
        try:
            holding = getattr(runtime.brokerages.of(world.federation, name), "held_places", None)
            if holding is not None:
                yield from runtime.time_limit.call(partial(holding, TASK.without(world, other_tasks)))
        except Exception:
            # The plugin's own phase fails in the same way and sets the task aside. Others go on.
            log.exception("what jobs of brokerage %s wait for is not known", name)


held_places = ProcessFields(("held_places",), _read)
"""The field of the world with these places, computed from the waiting jobs."""
