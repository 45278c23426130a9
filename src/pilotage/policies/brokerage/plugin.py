"""The plugin interface of brokerages: a class with a method ``decide``, named by an entry point and made with
options."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.values.entry_point_groups import BROKERAGES
from pilotage.model.values.phrases import not_installed
from pilotage.policies.brokerage.engine.plugin_options import OptionError

__all__ = [
    "Brokerage",
    "OptionError",
    "PluginError",
    "PluginLackingError",
    "PluginOptionsError",
    "UnknownPluginError",
    "load",
]


@runtime_checkable
class Brokerage(Protocol):
    """A policy that gives DEFINED jobs a queue, or a reason why there is none.

    ``decide`` is pure: the same world gives the same decision, byte for byte. Its moves have the kind
    ``job``: DEFINED to ACTIVATED, ASSIGNED or PENDING, each with the index of the choice that explains it.
    """

    def decide(self, world: World) -> Decision:
        """Choose a queue for each DEFINED job of the world, or make it wait."""


class PluginError(Exception):
    """A brokerage cannot be used under this name or with this configuration."""


class PluginLackingError(PluginError):
    """This machine lacks a brokerage, or a package that it needs; another server may have it."""


class UnknownPluginError(PluginLackingError):
    """No installed package offers a brokerage with this name, or several do."""


class PluginOptionsError(PluginError):
    """A brokerage refuses its options."""


def load(name: str, options: Mapping[str, Any]) -> Brokerage:
    """Return the brokerage that the entry point ``name`` of group ``pilotage.brokerage`` makes from
    ``options``.

    Raises ``UnknownPluginError``, ``PluginOptionsError``, and ``PluginLackingError`` if a
    dependency is not installed.
    """
    entry = _entry(name)
    try:
        factory = entry.load()
    except ImportError as error:
        is_builtin = entry.value.startswith("pilotage.") and error.name
        lacking = not_installed(error.name or "", name) if is_builtin else f"it lacks a package: {error}"
        raise PluginLackingError(f"brokerage {name!r}: {lacking}") from error
    try:
        plugin = factory(dict(options))
    except (TypeError, ValueError) as error:
        raise PluginOptionsError(
            f"brokerage {name!r} cannot be made with {dict(options)!r}: {error}"
        ) from error
    if not isinstance(plugin, Brokerage):
        raise PluginError(f"brokerage {name!r} has no method decide(world): {type(plugin).__qualname__}")
    return plugin


def _entry(name: str) -> EntryPoint:
    entries = entry_points(group=BROKERAGES)
    matching = [entry for entry in entries if entry.name == name]
    # The same entry may appear twice if a package is installed twice on the path.
    if len({entry.value for entry in matching}) > 1:
        offers = ", ".join(sorted(entry.value for entry in matching))
        raise UnknownPluginError(
            f"brokerage {name!r} is offered more than once: {offers}; uninstall all but one"
        )
    if not matching:
        names = ", ".join(sorted({entry.name for entry in entries})) or "none"
        raise UnknownPluginError(f"no brokerage is called {name!r}; installed: {names}")
    return matching[0]
