"""Bindings of jobs to their queues, requested by tasks, VOs and brokerages (E1)."""

from pilotage.flow.brokerages import Brokerages
from pilotage.model.records.borrowing import said_binding
from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import Binding, TaskSpec
from pilotage.model.rules.plugins import plugin_of
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage import Brokerage


def requested_binding(
    spec: TaskSpec, owner: Identity, federation: Federation, brokerages: Brokerages
) -> Binding | None:
    """Return the requested binding of a task's jobs; None if the federation's default applies.

    A brokerage that matches in cycles binds early in any case: it draws a site and counts its matches, so
    nothing may move a job between cycles (M4, M5, M7). Raises ``brokerage.PluginError``.
    """
    chosen = brokerages.of(federation, plugin_of(spec, owner.vo, federation))
    if waits_for_cycle(chosen):
        return "early"
    return said_binding(spec, owner, federation.binding, getattr(chosen, "binding", None))


def waits_for_cycle(chosen: Brokerage) -> bool:
    """Return whether a plugin matches in cycles and reconsiders nothing between them (M7)."""
    return bool(getattr(chosen, "waits_for_cycle", False))
