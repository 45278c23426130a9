"""The brokerage plugin of a task, and the task fields that concern nothing but brokerages."""

from dataclasses import MISSING, fields

from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import PLACE_FIELDS, PRODUCTION_FIELDS, SITE_FIELDS, TaskSpec

PRODUCTION = "production"
"""The plugin where neither the task nor the federation names one."""

BROKERAGE_FIELDS = PLACE_FIELDS | PRODUCTION_FIELDS | SITE_FIELDS
"""Task fields that have no effect where the task's brokerage does not read them."""


def plugin_of(spec: TaskSpec, vo: str, federation: Federation) -> str:
    """Return the plugin of a task: its own choice, or its VO's, or the federation's, or production."""
    plugins = federation.plugins
    return spec.brokerage or plugins.get(vo) or plugins.get("") or PRODUCTION


def fields_set(spec: TaskSpec) -> list[str]:
    """Return the brokerage fields that a task sets, in the order of their declaration.

    Jobs are bound early wherever a brokerage does not read ``binding``.
    """
    return [
        part.name
        for part in fields(TaskSpec)
        if part.name in BROKERAGE_FIELDS
        and part.default is not MISSING
        and getattr(spec, part.name) != part.default
        and not (part.name == "binding" and spec.binding == "early")
    ]
