"""Defined jobs are given a queue, by the plugin that their task, or its VO, asks for."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pilotage import brokerage
from pilotage.flow.step import Pass, take
from pilotage.model.decision import Decision
from pilotage.model.work import Task
from pilotage.model.world import World
from pilotage.store import Store

log = logging.getLogger(__name__)

DEFAULT_PLUGIN = "production"


def run(store: Store, now: Pass) -> int:
    """Broker what is defined; returns how many records changed.

    Each plugin decides on its own tasks, and what it placed is committed before the next one looks. One that
    fails, or is not installed, keeps only its own tasks waiting.
    """
    changed = 0
    world = store.snapshots.for_broker(now.time, now.seed, limit=now.batch)
    for number, plugin in enumerate(plugins(world)):
        if number:
            world = store.snapshots.for_broker(now.time, now.seed, limit=now.batch)
        try:
            decision = decide(world, plugin)
        except Exception:
            log.exception("brokerage plugin %r failed; its tasks wait", plugin)
            continue
        changed += take(store, decision, f"broker:{plugin}")
    return changed


def plugins(world: World) -> list[str]:
    """The plugins that the tasks of a world ask for, in the order of their names."""
    return sorted({plugin_of(task, world) for task in world.tasks})


def plugin_of(task: Task, world: World) -> str:
    """The plugin of a task: its own choice, its VO's, or the production brokerage."""
    return task.spec.brokerage or world.federation.plugins.get(task.owner.vo, DEFAULT_PLUGIN)


def decide(world: World, plugin: str) -> Decision:
    """What one plugin decides for its tasks, with the transfers that its placements need."""
    chosen = _loaded(plugin, world.federation.plugin_options.get(plugin, {}))
    return chosen.decide(restricted(world, plugin))


_plugins: dict[str, tuple[Mapping[str, Any], brokerage.Brokerage]] = {}


def _loaded(name: str, options: Mapping[str, Any]) -> brokerage.Brokerage:
    """Kept from pass to pass, as long as its options are the same: what it made of a federation serves on."""
    made = _plugins.get(name)
    if made is None or made[0] != options:
        made = _plugins[name] = (options, brokerage.load(name, options))
    return made[1]


def restricted(world: World, plugin: str) -> World:
    """The same world with the tasks and jobs of one plugin only."""
    tasks = tuple(task for task in world.tasks if plugin_of(task, world) == plugin)
    if len(tasks) == len(world.tasks):
        return world
    ids = {task.id for task in tasks}
    return replace(world, tasks=tasks, jobs=tuple(job for job in world.jobs if job.task in ids))


def decisions(world: World) -> Iterator[Decision]:
    """What every plugin in turn decides from a saved world."""
    for plugin in plugins(world):
        yield decide(world, plugin)
