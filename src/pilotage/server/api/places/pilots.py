"""Pilots, as people see them."""

from collections.abc import Collection
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response

from pilotage.flow.runtime import Runtime
from pilotage.model.records.logs import LogKey
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Name, Pilot
from pilotage.model.values.identity import Credential
from pilotage.policies.pilots import list_match, owner_credentials
from pilotage.policies.pilots.circuit_breakers import of_empty_pilots
from pilotage.server.api.edge.access import FOR_PEOPLE, SiteAdmin, sites_of
from pilotage.server.api.edge.answers import answer, documented, listed
from pilotage.server.api.edge.dependencies import PREFIX, After, AnyId, Form, Id, Limit, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.places import breakers
from pilotage.server.api.places.breakers import ShownBreaker
from pilotage.server.api.views import BatchWaits, Pilots
from pilotage.server.api.work.explanations import PilotExplanation, explained_pilot
from pilotage.server.api.work.logs import KeptLogs, kept_logs
from pilotage.store.pilots.world import pilots_that_trip

router = APIRouter(prefix=f"{PREFIX}/pilots", tags=["pilots"], route_class=MeasuredRoute)


@router.get("", responses=documented(Pilots))
def get_pilots(
    caller: SiteAdmin,
    runtime: TheRuntime,
    state: PilotState | None = None,
    queue: Name | None = None,
    empty: bool = False,
    limit: Limit = 100,
    after: After = "",
) -> Response:
    """List pilots, newest first; with ``empty``, pilots that ended without a job, or were sent for work that
    their machine cannot run.

    With these come circuit breakers that opened because of them (P12), and why no server of a queue takes
    pilots where jobs wait (P8). A site admin sees those at their sites.
    """
    queues = queues_seen(runtime, caller)
    shown = queues if queue is None else {queue} if queues is None else queues & {queue}
    tripped = breakers_of_empty(runtime, shown) if empty else []
    pilots = runtime.store.queries.pilots(state, queue, limit, empty, after, queues)
    return listed("pilots", pilots, breakers=tripped, problems=_problems(runtime, shown))


def queues_seen(runtime: Runtime, caller: Credential) -> set[str] | None:
    """Return the queues with pilots that the caller sees; None: all."""
    sites = sites_of(caller)
    if sites is None:
        return None
    return {queue.name for queue in runtime.store.federation().queues if queue.site in sites}


def breakers_of_empty(runtime: Runtime, queues: Collection[str] | None) -> list[ShownBreaker]:
    """Return breakers that opened because pilots were sent in vain, of some queues or all (P12)."""
    now = runtime.clock()
    tripped = of_empty_pilots(runtime.world(pilots_that_trip, "lifted_breakers", "lacking_nodes"))
    return [
        breakers.breaker_view(breaker, now)
        for breaker in tripped
        if queues is None or breaker.place[0] in queues
    ]


def _problems(runtime: Runtime, queues: Collection[str] | None) -> list[str]:
    """Return why no server accepts pilots, or which credentials of owners cannot be used, at some queues or
    all.

    Return nothing if no queue asks its servers first or has such credentials.
    """
    federation = runtime.store.federation()
    elements = (
        place.computing_element for place in federation.queues if queues is None or place.name in queues
    )
    if not any(element and (element.list_match or element.credentials) for element in elements):
        return []
    world = runtime.elements.with_list_matches(runtime.world("task_queues", "lifted_breakers"))
    unusable = runtime.elements.unusable_credentials(federation, world.time)
    world = replace(world, unusable_credentials=unusable)
    problems = [*list_match.problems(world), *owner_credentials.problems(world)]
    return [problem for problem in problems if queues is None or problem.partition(": ")[0] in queues]


@router.get("/waits", dependencies=[FOR_PEOPLE], responses=documented(BatchWaits))
def get_waits(
    runtime: TheRuntime,
    after: Annotated[float, Query(ge=0, le=1e11, description="only what was recorded after this time")] = 0,
    limit: Limit = 1000,
) -> Response:
    """Waits of the newest pilots that called home, recorded after a time in s since 1970."""
    return answer({"waits": runtime.store.batch_waits.since(after, limit)})


@router.get("/{pilot}", responses=documented(Pilot, 404))
def get_pilot(pilot: Id, caller: SiteAdmin, runtime: TheRuntime) -> Response:
    """Return one pilot."""
    return answer(visible_pilot(runtime, caller, pilot))


@router.get("/{pilot}/explain", responses=documented(PilotExplanation, 404))
def get_explanation(pilot: Id, caller: SiteAdmin, runtime: TheRuntime, text: Form) -> Response:
    """Explain a pilot: why it was made, which jobs it ran, and why it ended."""
    visible_pilot(runtime, caller, pilot)
    explanation = explained_pilot(runtime, pilot, text)
    if explanation is None:
        raise HTTPException(404, f"there is no pilot {pilot}")
    return answer(explanation)


@router.get("/{pilot}/logs", responses=documented(KeptLogs, 404))
def get_logs(pilot: Id, caller: SiteAdmin, runtime: TheRuntime, agent_seen: AnyId = 0) -> Response:
    """The log of a pilot's agent, without bytes already seen. The server asks a running one for more."""
    return answer(read_logs(runtime, visible_pilot(runtime, caller, pilot), agent_seen))


def read_logs(runtime: Runtime, pilot: Pilot, agent_seen: int) -> KeptLogs:
    """Return the stored log of a pilot's agent, and ask a running one for more."""
    runs = pilot.state is PilotState.RUNNING
    if runs:
        runtime.log_readers.ask("pilot", pilot.id, runtime.clock())
    key = LogKey(kind="pilot", record=pilot.id)
    return kept_logs(runtime.store, key, {"agent": agent_seen}, runs)


def visible_pilot(runtime: Runtime, caller: Credential, pilot: int) -> Pilot:
    """Return a pilot that the caller sees; 404 if there is none, or if it is at another site."""
    record, queues = runtime.store.queries.pilot(pilot), queues_seen(runtime, caller)
    if record is None or (queues is not None and record.queue not in queues):
        raise HTTPException(404, f"there is no pilot {pilot}")
    return record
