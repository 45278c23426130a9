"""The server processes of a store, as people see them."""

from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter

from pilotage.flow.outside.membership import times_of
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.records.servers import ServerProcess
from pilotage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingLoop:
    """A loop and the live servers where its last pass failed, with one of the errors.

    Without servers in it, no live server runs the loop.
    """

    name: str
    servers: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersOverview:
    """Every server that is kept, the one that has the lease of each sole loop, and loops without a server.

    ``takeover`` is the longest time in s until others take over the work of a silent server.
    """

    servers: tuple[ServerProcess, ...]
    leases: dict[str, str]
    missing_loops: tuple[str, ...]
    takeover: float


def failing_loops(runtime: Runtime) -> list[FailingLoop]:
    """Return the loops that fail on any live server or that no server has, by name."""
    overview = servers_overview(runtime.store)
    live = [server for server in overview.servers if server.state == "live"]
    errors: dict[str, dict[str, str]] = defaultdict(dict)
    for server in live:
        for loop, last in server.report.passes.items():
            if last.error:
                errors[loop][f"{server.name} on {server.host}"] = last.error
    for loop, error in runtime.set_aside.failing_loops.items():
        # This process knows its own failures before it has stored them.
        errors[loop] = errors[loop] or {"this server": error}
    failing = [
        FailingLoop(name=loop, servers=(*by_server,), error=next(iter(by_server.values())))
        for loop, by_server in errors.items()
    ]
    error = "its part of the work stands still"
    missing = [FailingLoop(name=loop, servers=(), error=error) for loop in overview.missing_loops if live]
    return sorted([*failing, *missing], key=attrgetter("name"))


def servers_overview(store: Store) -> ServersOverview:
    """Return the servers of a store."""
    servers = store.servers.everything()
    served = {name for server in servers if server.state == "live" for name in server.loops}
    return ServersOverview(
        servers=servers,
        leases=store.leases.holders(),
        missing_loops=tuple(step.name for step in STEPS if step.has_loop and step.name not in served),
        takeover=times_of(store).takeover,
    )
