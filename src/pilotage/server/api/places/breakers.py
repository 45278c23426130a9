"""Circuit breakers: which have tripped, until when and why, and how an operator lifts them."""

import json
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import remarks
from pilotage.flow.runtime import Runtime
from pilotage.model.circuit_breakers.breaker import CircuitBreaker, Kind, State, seen_by
from pilotage.model.documents.remarks import Remark
from pilotage.model.rules.places import is_at, site_of
from pilotage.model.values.identity import Credential
from pilotage.server.api.edge.access import (
    Person,
    SiteAdmin,
    actor,
    owner_seen,
    refuse_other_site,
    sees_all,
    sites_of,
)
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import named_page

router = APIRouter(prefix=f"{PREFIX}/breakers", tags=["queues"], route_class=MeasuredRoute)


class ShownBreaker(BaseModel):
    """A circuit breaker that failures have tripped. Times in s since 1970 UTC."""

    kind: Annotated[Kind, Field(description="What it guards.")]
    rule: Annotated[str, Field(description="Number of the rule that trips it.")]
    place: Annotated[
        list[str],
        Field(
            description="Queue and node, or server, or what its nodes lack; or source and destination. "
            "Empty stands for any.",
            min_length=2,
            max_length=2,
        ),
    ]
    names: Annotated[list[str], Field(description="Names of its places. Each of them lifts it.")]
    what: Annotated[str, Field(description="What it holds back.")]
    vo: Annotated[str, Field(description="VO of the jobs that it holds back; empty: all.")]
    owner: Annotated[str, Field(description="Owner of the jobs that it holds back; empty: everybody.")]
    task: Annotated[int, Field(description="The task whose jobs it holds back; 0: all of the owner's.")]
    state: Annotated[State, Field(description="Open: nothing passes. Half-open: one probe does.")]
    since: Annotated[float, Field(description="When it opened.")]
    until: Annotated[float, Field(description="When it becomes half-open.")]
    failures: Annotated[int, Field(description="Failures in a row.")]
    reason: Annotated[str, Field(description="Why it opened.")]
    error: Annotated[str, Field(description="The last failure.")]
    probe: Annotated[str, Field(description="What probes the place once it is half-open.")]


class Breakers(PageOfList):
    """Circuit breakers that are open or half-open; on the first page also records that are set aside."""

    breakers: Annotated[list[ShownBreaker], Field(description="Breakers by kind and place.")]
    set_aside: Annotated[
        list[Remark],
        Field(
            description="Which steps fail at what and have set it aside, with the error and what lifts it. "
            "Only operators read of tasks, files, transfers and pilots here."
        ),
    ]


class Lift(RequestBody):
    """The circuit breakers to lift."""

    name: Annotated[str, Field(max_length=500, description="Storage, queue, node or server.")]
    kind: Annotated[Kind | None, Field(description="Only those of this kind; null: of all.")] = None


class Lifted(BaseModel):
    """The circuit breakers that were lifted."""

    lifted: Annotated[list[ShownBreaker], Field(description="They as they were.")]


@router.get("", responses=documented(Breakers, 409))
def get_breakers(caller: Person, runtime: TheRuntime, after: After = "", limit: Limit = 10_000) -> Response:
    """Every circuit breaker that is open or half-open: the work that it holds back, until when and why.

    Users see the ones that concern their work, and no errors of other people's jobs. A site admin sees all at
    their sites.

    The first page also has the records that a step has set aside because it fails at them.
    """
    now, is_first = runtime.clock(), not after
    to_operators = sees_all(caller)
    aside = remarks.everything_set_aside(runtime, to_operators=to_operators) if is_first else []
    page = named_page(_seen_by(caller, runtime), _place, after, limit)
    return listed("breakers", page, [breaker_view(breaker, now) for breaker in page], set_aside=aside)


def _seen_by(caller: Credential, runtime: Runtime) -> list[CircuitBreaker]:
    """Return the breakers that concern the caller's work, and all of those at a site admin's sites."""
    tripped, federation = circuit_breakers.tripped(runtime), runtime.store.declared_federation()
    at_sites = [breaker for breaker in tripped if is_at(breaker, federation, caller.sites)]
    others = (breaker for breaker in tripped if breaker not in at_sites)
    return [*at_sites, *seen_by(others, owner_seen(caller))]


def _place(breaker: CircuitBreaker) -> str:
    # As it is: escaped, the longest names would not fit into a cursor.
    return json.dumps([breaker.kind, *breaker.place, *breaker.whose, breaker.words.rule], ensure_ascii=False)


@router.post("/lift", responses=documented(Lifted, 404, 409))
def post_lift(lift: Lift, caller: SiteAdmin, runtime: TheRuntime) -> Response:
    """Close every breaker of a name: earlier failures stop counting, and all work may go there again."""
    now = runtime.clock()
    refuse_other_site(caller, site_of(runtime.store.declared_federation(), lift.name))
    lifted = circuit_breakers.lift(runtime, lift.name, actor(caller), lift.kind, sites_of(caller))
    return answer({"lifted": [breaker_view(breaker, now) for breaker in lifted]})


def breaker_view(breaker: CircuitBreaker, now: float) -> ShownBreaker:
    """Return a breaker as people see it now, in s since 1970 UTC."""
    vo, owner, task = breaker.whose
    return ShownBreaker(
        kind=breaker.kind,
        rule=breaker.words.rule,
        place=list(breaker.place),
        names=sorted(breaker.names),
        what=breaker.what,
        vo=vo,
        owner=owner,
        task=task,
        state=breaker.state(now),
        since=breaker.since,
        until=breaker.until,
        failures=breaker.failures,
        reason=breaker.reason,
        error=breaker.error,
        probe=breaker.words.probe,
    )
