"""The server processes of a store, as people see them."""

from dataclasses import dataclass

from pilotage.flow.outside.membership import times_of
from pilotage.flow.steps import STEPS
from pilotage.model.records.servers import ServerProcess
from pilotage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersOverview:
    """Every server that is kept, the one that has the lease of each sole loop, and loops without a server.

    ``takeover`` is the longest time in s until others take over the work of a silent server.
    """

    servers: tuple[ServerProcess, ...]
    leases: dict[str, str]
    missing_loops: tuple[str, ...]
    takeover: float


def servers_overview(store: Store) -> ServersOverview:
    """Return the servers of a store."""
    found = store.servers.everything()
    served = {name for one in found if one.state == "live" for name in one.loops}
    return ServersOverview(
        servers=found,
        leases=store.leases.holders(),
        missing_loops=tuple(step.name for step in STEPS if step.has_loop and step.name not in served),
        takeover=times_of(store).takeover,
    )
