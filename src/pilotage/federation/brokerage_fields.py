"""Task fields that the task's brokerage does not read."""

from collections.abc import Iterator, Set
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from pilotage.federation.faults import Fault
from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import TaskSpec
from pilotage.model.rules.plugins import fields_set, plugin_of
from pilotage.model.values.entry_point_groups import BROKERAGES
from pilotage.model.values.identity import Identity


@cache
def brokerages() -> frozenset[str]:
    """Return the names of the installed brokerage plugins."""
    return frozenset(point.name for point in entry_points(group=BROKERAGES))


def unread_fields(spec: TaskSpec, federation: Federation, owner: Identity | None) -> Iterator[Fault]:
    """Yield the fields that a task sets, if its brokerage declares that it does not read them."""
    names, plugin = fields_set(spec), plugin_of(spec, owner.vo if owner else "", federation)
    reads = _declared(plugin) if names else None
    for name in names:
        if reads is not None and name not in reads:
            readers = [
                brokerage for brokerage in sorted(brokerages()) if name in (_declared(brokerage) or ())
            ]
            alternative = f", or ask for `brokerage: {readers[0]}`" if readers else ""
            message = f"is set, and the brokerage {plugin!r}, which decides about this task, does not read it"
            yield Fault((name,), message, f"leave it out{alternative}")


def undeclared_fields(spec: TaskSpec, federation: Federation, owner: Identity) -> list[str]:
    """Return warnings of fields that a task sets, if its brokerage does not declare which fields it reads."""
    names, plugin = fields_set(spec), plugin_of(spec, owner.vo, federation)
    if not names or plugin not in brokerages() or _declared(plugin) is not None:
        return []
    return [f"the brokerage {plugin!r} does not declare whether it reads {', '.join(names)}"]


@cache
def _declared(plugin: str) -> Set[str] | None:
    """Return the task fields that a plugin declares to read; None if it declares none, or cannot load."""
    for point in entry_points(group=BROKERAGES, name=plugin):
        try:
            reads: Any = getattr(point.load(), "reads", None)
        except Exception:  # the broker reports the error when it loads the plugin
            return None
        return None if reads is None else frozenset(reads)
    return None
