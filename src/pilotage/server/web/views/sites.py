"""Sites: the list, the map of links or their matrix, and one site."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.flow.calls.places.site_views import SiteState
from pilotage.model.records.federation import Federation, Link
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS
from pilotage.server.api.data.storages import ShownStorage, shown_storages
from pilotage.server.api.places.queues import shown_queues
from pilotage.server.api.views import ShownQueue
from pilotage.server.web.action_model import ActionLink
from pilotage.server.web.pages import OF_PLACES, Page, Visit, command, view
from pilotage.server.web.place_actions import verbs
from pilotage.server.web.site_map import MapLink, MapSite, SiteMap, drawn
from pilotage.server.web.views.places import PlacePage, PlaceQuery, page_of
from pilotage.server.web.views.work_day import WorkDay, work_day

MOST_LINKS = 50
"""Most links in the table, those with most files or throughput."""

MOST_IN_MATRIX = 20
"""Most sites along each side of the matrix."""

MOST_PLACES = 100
"""Most queues and storages of a site that its page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRow:
    """A site in the list."""

    name: str
    is_nucleus: bool
    restriction: str
    queues: int
    open_queues: int
    """Queues that take work."""
    waiting: int
    running: int
    tripped: int
    """Circuit breakers that hold something back there, be it one task."""
    state: SiteState | None

    @property
    def site(self) -> str:
        """Return its own name."""
        return self.name

    @property
    def is_bad(self) -> bool:
        """Return whether it takes no work: an operator restricts it, or none of its queues takes any."""
        return bool(self.restriction or (self.queues and not self.open_queues))


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesModel:
    """Sites and the links between them."""

    page: PlacePage[SiteRow]
    map: SiteMap
    done: str


def sites(visit: Visit) -> Page:
    """Show sites with their load, and the links between them."""
    query = visit.query(PlaceQuery)
    rows = _rows(visit)
    model = SitesModel(page=page_of(visit, query, rows), map=_map(visit, rows), done=visit.done)
    return Page(
        template="sites.html",
        title="Sites",
        section="Sites",
        model=model,
        json="/sites",
        command=command("sites"),
        stale=OF_PLACES,
    )


def _rows(visit: Visit) -> list[SiteRow]:
    from pilotage.flow.calls.places import (
        sites as calls,  # ads need numpy, which a server loads when it is needed
    )

    federation = visit.store.declared_federation()
    states = {state.site: state for state in calls.views(visit.runtime)}
    queues: defaultdict[str, list[ShownQueue]] = defaultdict(list)
    for queue in shown_queues(visit.runtime, visit.owner):
        queues[queue.site].append(queue)
    tripped: defaultdict[str, int] = defaultdict(int)
    for storage in shown_storages(visit.runtime):
        tripped[storage.site] += len(storage.breakers)
    restricted = {
        restriction.name: restriction.text
        for restriction in visit.store.restrictions()
        if restriction.kind == "site"
    }
    return [
        SiteRow(
            name=site.name,
            is_nucleus=site.nucleus,
            restriction=restricted.get(site.name, ""),
            queues=len(queues[site.name]),
            open_queues=sum(map(takes_work, queues[site.name])),
            waiting=_jobs(queues[site.name], UNSTARTED_JOBS),
            running=_jobs(queues[site.name], AT_A_PILOT),
            tripped=tripped[site.name] + sum(len(queue.breakers) for queue in queues[site.name]),
            state=states.get(site.name),
        )
        for site in sorted(federation.sites, key=attrgetter("name"))
    ]


def takes_work(queue: ShownQueue) -> bool:
    """Return whether a queue takes work. A breaker that holds back one person or task does not close it."""
    is_open = not queue.restriction and queue.status in ("online", "standby")
    return is_open and not any(
        breaker.kind != "node" and breaker.state == "open" and not breaker.owner for breaker in queue.breakers
    )


def _jobs(queues: Sequence[ShownQueue], states: Sequence[object]) -> int:
    return sum(count for queue in queues for state, count in queue.jobs.items() if state in states)


def _map(visit: Visit, rows: Sequence[SiteRow]) -> SiteMap:
    """Return the links. Measurements, and the files on their way, are for operators, as in the API."""
    federation = visit.store.declared_federation()
    files: Mapping[tuple[str, str], int] = {}
    links: Sequence[Link] = federation.links
    if visit.sees_all:
        links, files = visit.runtime.world().federation.links, _files(visit, federation)
    rates = {(link.source, link.destination): _rate(link) for link in links}
    map_links = [
        MapLink(source=ends[0], destination=ends[1], rate=rates.get(ends), files=files.get(ends, 0))
        for ends in sorted(rates.keys() | files.keys())
        if ends[0] != ends[1] and (rates.get(ends) or files.get(ends))
    ]
    nodes = [
        MapSite(name=row.name, is_nucleus=row.is_nucleus, is_bad=row.is_bad, running=row.running)
        for row in rows
    ]
    return drawn(nodes, map_links, MOST_LINKS, MOST_IN_MATRIX)


def _rate(link: Link) -> float | None:
    """Return MB/s, of the shortest time that is known."""
    return next(
        (rate for rate in (link.throughput_1h, link.throughput_1d, link.throughput_1w) if rate is not None),
        None,
    )


def _files(visit: Visit, federation: Federation) -> Mapping[tuple[str, str], int]:
    """Return the numbers of live transfers by the sites of their storages."""
    sites_of = {storage.name: storage.site for storage in federation.storages}
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    for group in visit.store.transfer_queries.live():
        if group.source in sites_of and group.destination in sites_of:
            counts[sites_of[group.source], sites_of[group.destination]] += group.transfers
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteModel:
    """One site."""

    row: SiteRow
    day: WorkDay
    queues: Sequence[ShownQueue]
    storages: Sequence[ShownStorage]
    ad: str
    verbs: Sequence[ActionLink]
    done: str


def site(visit: Visit) -> Page:
    """Show one site: its queues, its storages and its advertisement."""
    from pilotage.flow.calls.places import sites as calls

    name = visit.request.path_params["site"]
    row = next((row for row in _rows(visit) if row.name == name), None)
    if row is None:
        raise HTTPException(404, f"there is no site {name!r}; pilotage sites lists them")
    ad = calls.text(visit.runtime, name)
    model = SiteModel(
        row=row,
        day=work_day(visit, "site", name),
        queues=[queue for queue in shown_queues(visit.runtime, visit.owner) if queue.site == name][
            :MOST_PLACES
        ],
        storages=[storage for storage in shown_storages(visit.runtime) if storage.site == name][:MOST_PLACES],
        ad=ad or "",
        verbs=verbs(visit, "site", name),
        done=visit.done,
    )
    return Page(
        template="site.html",
        title=name,
        section="Sites",
        model=model,
        json=f"/sites/{quote(name, safe='')}/ad" if ad else "/sites",
        command=command("sites", "ad", name) if ad else command("sites"),
        stale=OF_PLACES,
    )


ROUTES: Sequence[Route] = (view("/sites", sites), view("/sites/{site}", site))
