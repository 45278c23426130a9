"""Bindings of jobs to their queues, as tasks, VOs and brokerages ask for them (E1)."""

from pilotage.model.borrowing import said_binding
from pilotage.model.federation import Federation
from pilotage.model.identity import Identity
from pilotage.model.spec import Binding, TaskSpec

from .brokerages import Brokerages

DEFAULT_PLUGIN = "production"


def plugin_of(spec: TaskSpec, owner: Identity, federation: Federation) -> str:
    """The plugin of a task: its own choice, its VO's, or the production brokerage."""
    return spec.brokerage or federation.plugins.get(owner.vo, DEFAULT_PLUGIN)


def said(spec: TaskSpec, owner: Identity, federation: Federation, brokerages: Brokerages) -> Binding | None:
    """The binding that somebody asked for a task's jobs; None where the federation's default holds.

    Raises ``brokerage.PluginError``.
    """
    plugin = plugin_of(spec, owner, federation)
    chosen = brokerages.get(plugin, federation.plugin_options.get(plugin, {}))
    return said_binding(spec, owner, federation.binding, getattr(chosen, "binding", None))
