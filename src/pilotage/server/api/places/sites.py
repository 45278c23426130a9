"""Sites: their advertisements, also their own ones, and which of them match a task (M2, M4)."""

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.places.site_views import QueueMatch, SiteState
from pilotage.model.records.advertisements import MOST_BYTES
from pilotage.model.values.classad import ClassAdError
from pilotage.model.values.identity import Credential
from pilotage.policies.brokerage import PluginError
from pilotage.server.api.edge.access import (
    FOR_PEOPLE,
    Person,
    RoleCheck,
    SiteAdmin,
    actor,
    refuse_other_site,
)
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Id, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.tasks import visible_task
from pilotage.store import named_page

router = APIRouter(prefix=PREFIX, tags=["sites"], route_class=MeasuredRoute)

SiteName = Annotated[str, Path(max_length=200)]


class SiteStates(PageOfList):
    """Sites by name."""

    sites: list[SiteState]


class Ad(RequestBody):
    """The ClassAd of a site as text: ``[ Name = value; ... ]``."""

    ad: Annotated[str, Field(max_length=MOST_BYTES)]


class QueueMatches(BaseModel):
    """Queues by site and name."""

    matches: list[QueueMatch]


@router.get("/sites", dependencies=[FOR_PEOPLE], responses=documented(SiteStates, 409))
def get_sites(runtime: TheRuntime, after: After = "", limit: Limit = 10_000) -> Response:
    """Sites with a queue by name, with their last advertisements."""
    from pilotage.flow.calls.places import (
        sites,  # ads are made with numpy, which a server loads when it is needed
    )

    return listed("sites", named_page(sites.views(runtime), attrgetter("site"), after, limit))


@router.get("/sites/{site}/ad", dependencies=[FOR_PEOPLE], responses=documented(Ad, 404, 409))
def get_ad(site: SiteName, runtime: TheRuntime) -> Response:
    """The ClassAd of a site as it is matched now."""
    from pilotage.flow.calls.places import sites

    text = sites.text(runtime, site)
    if text is None:
        raise HTTPException(404, f"there is no site {site!r} with a queue; pilotage sites lists them")
    return answer({"ad": text})


@router.put("/sites/{site}/ad", status_code=204, responses=documented(None, 404))
def put_ad(
    site: SiteName,
    body: Ad,
    caller: Annotated[Credential, Depends(RoleCheck("site", "site-admin", "operator"))],
    runtime: TheRuntime,
) -> Response:
    """Advertise a site with its own token. The advertisement holds for three periods."""
    from pilotage.flow.calls.places import sites

    if caller.role == "site" and caller.identity.name != site:
        raise HTTPException(403, f"this token is of the site {caller.identity.name}, not of {site}")
    if caller.role == "site-admin":
        refuse_other_site(caller, site)
    _check_site(site, runtime)
    try:
        sites.push(runtime, site, body.ad, actor(caller))
    except ClassAdError as error:
        return answer({"detail": [{"field": "ad", "message": str(error)}]}, 422)
    return Response(status_code=204)


@router.delete("/sites/{site}/ad", status_code=204, responses=documented(None, 404))
def delete_ad(site: SiteName, caller: SiteAdmin, runtime: TheRuntime) -> Response:
    """Forget a site's own advertisement. Its batch systems' reports take its place again."""
    from pilotage.flow.calls.places import sites

    refuse_other_site(caller, site)
    _check_site(site, runtime)
    sites.withdraw(runtime, site, actor(caller))
    return Response(status_code=204)


@router.get("/tasks/{task}/sites", responses=documented(QueueMatches, 404, 409))
def get_matches(task: Id, caller: Person, store: TheStore, runtime: TheRuntime) -> Response:
    """Explain which queues match a task's jobs by the ads of both, and what fails at the others."""
    from pilotage.flow.calls.places import sites

    visible_task(store, caller, task)
    try:
        return answer({"matches": sites.matches(runtime, task)})
    except PluginError as error:
        raise HTTPException(409, str(error)) from error


def _check_site(site: str, runtime: TheRuntime) -> None:
    names = {queue.site for queue in runtime.store.federation().queues}
    if site not in names:
        raise HTTPException(404, f"there is no site {site!r} with a queue; pilotage sites lists them")
