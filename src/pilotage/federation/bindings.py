"""Check what tasks ask about the binding of their jobs (E1)."""

from collections.abc import Iterator

from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.identity import Identity

from .faults import Fault

MATCHMAKING = "matchmaking"


def binding_faults(spec: TaskSpec, federation: Federation, owner: Identity | None) -> Iterator[Fault]:
    """Yield bindings that a brokerage does not offer: match-making draws a site, and binds jobs to it."""
    plugin = spec.brokerage or (federation.plugins.get(owner.vo, "") if owner else "")
    if plugin == MATCHMAKING and spec.binding not in ("", "early"):
        message = f"is {spec.binding!r}, and the brokerage {plugin} binds jobs to the site that it draws"
        yield Fault(("binding",), message, "leave it out, or ask for another brokerage")
