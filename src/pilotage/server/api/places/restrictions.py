"""Sites, queues and storages that operators drain or have closed."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.places import restrictions
from pilotage.model.records.restrictions import RestrictedKind, Restriction, RestrictionMode
from pilotage.model.rules.places import site_of
from pilotage.model.values.types import Seconds
from pilotage.server.api.edge.access import FOR_PEOPLE, SiteAdmin, actor, refuse_other_site
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import LINE, PREFIX, After, Limit, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import by_time, named_page

router = APIRouter(prefix=f"{PREFIX}/restrictions", tags=["federation"], route_class=MeasuredRoute)


class WantedRestriction(RequestBody):
    """What to drain or close, how long and why."""

    mode: Annotated[
        RestrictionMode,
        Field(description="Drain: waiting jobs go elsewhere, running ones end. Close: jobs wait there."),
    ]
    because: Annotated[
        str, Field(min_length=1, max_length=500, pattern=LINE, description="The reason, for everybody.")
    ]
    until: Annotated[Seconds | None, Field(description="When it ends, s since 1970 UTC; null: never.")] = None


class ShownRestriction(BaseModel):
    """A restriction in force, and what its place still has. Times in s since 1970 UTC."""

    kind: RestrictedKind
    name: str
    mode: RestrictionMode
    because: str
    actor: Annotated[str, Field(description="Who put it in force.")]
    since: float
    until: float | None
    waiting: Annotated[int, Field(description="Jobs there that have not started.")]
    running: Annotated[int, Field(description="Jobs there at pilots.")]
    pilot_ended: Annotated[int, Field(description="Those of them at pilots whose batch job has ended.")]
    pilot_ended_until: Annotated[
        float | None, Field(description="When the last of these go on elsewhere; null: there are none.")
    ]
    leaving: Annotated[int, Field(description="Jobs whose outputs are on the way from there.")]
    transfers: Annotated[int, Field(description="Live transfers from and to a storage.")]
    empty: Annotated[bool, Field(description="Whether nothing is left there.")]


class Restrictions(PageOfList):
    """The restrictions in force."""

    restrictions: Annotated[list[ShownRestriction], Field(description="In the order of their beginning.")]


class Opened(BaseModel):
    """What was opened."""

    opened: Annotated[bool, Field(description="Whether it was drained or closed before.")]
    still: Annotated[
        str, Field(description="What else keeps it shut: its site, or the file; empty: nothing.")
    ]


PlaceName = Annotated[str, Path(max_length=200)]


@router.get("", dependencies=[FOR_PEOPLE], responses=documented(Restrictions, 409))
def get_restrictions(runtime: TheRuntime, after: After = "", limit: Limit = 10_000) -> Response:
    """Sites, queues and storages that operators drain or have closed, and their remaining work."""
    page = named_page(runtime.store.restrictions(), _place, after, limit)
    return listed(
        "restrictions",
        page,
        [_restriction_view(*pair) for pair in restrictions.with_remaining(runtime, page)],
    )


def _place(restriction: Restriction) -> str:
    return by_time(restriction.since, f"{restriction.kind} {restriction.name}")


@router.put("/{kind}/{name}", responses=documented(ShownRestriction, 404, 409))
def put_restriction(
    kind: RestrictedKind, name: PlaceName, order: WantedRestriction, caller: SiteAdmin, runtime: TheRuntime
) -> Response:
    """Drain or close a site, queue or storage. A reload of the federation or a restart does not undo it."""
    refuse_other_site(caller, site_of(runtime.store.declared_federation(), name, kind))
    restriction = Restriction(
        kind=kind,
        name=name,
        mode=order.mode,
        because=order.because,
        actor=actor(caller),
        since=runtime.clock(),
        until=order.until,
    )
    return answer(_restriction_view(restriction, restrictions.restrict(runtime, restriction)))


@router.delete("/{kind}/{name}", responses=documented(Opened, 404, 409))
def delete_restriction(
    kind: RestrictedKind, name: PlaceName, caller: SiteAdmin, runtime: TheRuntime
) -> Response:
    """Open a site, queue or storage again."""
    refuse_other_site(caller, site_of(runtime.store.declared_federation(), name, kind))
    lifted = restrictions.lift(runtime, kind, name, actor(caller))
    still = restrictions.still_shut(runtime, kind, name)
    return answer({"opened": lifted is not None, "still": still})


def _restriction_view(restriction: Restriction, remaining: restrictions.Remaining) -> dict[str, object]:
    return {**asdict(restriction), **asdict(remaining), "empty": remaining.is_empty}
