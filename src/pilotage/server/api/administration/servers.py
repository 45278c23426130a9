"""The server processes that share the store: which live, their work, and the work that they cannot do."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.administration.servers import servers_overview
from pilotage.model.records.servers import ServerProcess, ServerState
from pilotage.server.api.edge.access import FOR_OPERATORS
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import PREFIX, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=PREFIX, tags=["servers"], route_class=MeasuredRoute)


class ShownLoop(BaseModel):
    """A loop of a server, with its last pass."""

    name: Annotated[str, Field(description="The step, or other work, that it does.")]
    ended: Annotated[
        float | None, Field(description="When its last pass ended, in s since 1970; null: none yet.")
    ]
    seconds: Annotated[float | None, Field(description="How long that pass took, in s.")]
    error: Annotated[str, Field(description="Why that pass failed; empty: it did not.")]
    has_lease: Annotated[bool, Field(description="Whether it does work now that one server at a time does.")]


class ShownServer(BaseModel):
    """One start of a server process. Times in s since 1970 UTC."""

    name: Annotated[str, Field(description="Its random name, new at each start.")]
    version: Annotated[str, Field(description="Its version of Pilotage.")]
    state: Annotated[ServerState, Field(description="Whether it lives, is silent, or has ended.")]
    host: Annotated[str, Field(description="The machine that it runs on.")]
    url: Annotated[str, Field(description="The address of its API; empty: it has none.")]
    started: Annotated[float, Field(description="When it started.")]
    seen: Annotated[float, Field(description="When it sent its last heartbeat.")]
    gone: Annotated[float | None, Field(description="When it ended, or others found it silent.")]
    silent_for: Annotated[
        float | None,
        Field(description="Seconds of silence before others took over; null: it left."),
    ]
    loops: Annotated[list[ShownLoop], Field(description="Its loops.")]
    lacks: Annotated[
        list[str], Field(description="Plugins, adapters and movers that it leaves to others, and why.")
    ]


class ShownServers(BaseModel):
    """The servers that share the store."""

    servers: Annotated[
        list[ShownServer], Field(description="Those that live, and those that have gone within a day.")
    ]
    missing_loops: Annotated[list[str], Field(description="Loops that no live server has.")]
    takeover: Annotated[
        float, Field(description="Longest time in s until others take over from a silent server.")
    ]


@router.get("/servers", dependencies=[FOR_OPERATORS], responses=documented(ShownServers))
def get_servers(store: TheStore) -> Response:
    """Every server process of the store: its version, loops, last passes and lease, and missing plugins."""
    return answer(shown_servers(store).model_dump())


def shown_servers(store: TheStore) -> ShownServers:
    """Return the servers as people see them."""
    overview = servers_overview(store)
    return ShownServers(
        servers=[_server_view(server, overview.leases) for server in overview.servers],
        missing_loops=list(overview.missing_loops),
        takeover=overview.takeover,
    )


def _server_view(server: ServerProcess, leases: dict[str, str]) -> ShownServer:
    nothing = {"ended": None, "seconds": None, "error": ""}
    passes = asdict(server.report)["passes"]
    loops = [
        ShownLoop(name=name, has_lease=leases.get(name) == server.name, **passes.get(name, nothing))
        for name in server.loops
    ]
    return ShownServer(
        **(asdict(server) | {"state": server.state, "loops": loops, "lacks": list(server.report.lacks)})
    )
