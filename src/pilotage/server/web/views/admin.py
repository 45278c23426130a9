"""What operators administer: the federation and its history, restrictions, tokens and circuit breakers."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.federation.text import render
from pilotage.flow.calls.administration import federation_changes
from pilotage.flow.calls.administration.federation_changes import DescribedVersion
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import remarks
from pilotage.flow.outside.kept_worlds import KeptWorldView
from pilotage.model.documents.remarks import Remark
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.restrictions import Restriction
from pilotage.model.rules.options import without_options
from pilotage.model.values.phrases import day
from pilotage.server.api.administration.servers import shown_servers
from pilotage.server.api.places.breakers import ShownBreaker, breaker_view
from pilotage.server.web.pages import Cursor, Page, Staleness, Visit, command, view
from pilotage.store import PersonToken

VERSIONS = 20
"""Versions of the federation of a page."""

MOST_ROWS = 200
"""Most tokens, circuit breakers or lines of a page."""

MOST_PLACES = 200
"""Most sites, storages and queues together of a federation that is shown; the command shows larger ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminModel:
    """The content of a page."""

    part: object


def _page(name: str, part: object, json: str, line: str, stale: Staleness | None = None) -> Page:
    return Page(
        template=f"admin-{name.lower()}.html",
        title=name,
        section="Federation" if name == "History" else name,
        model=AdminModel(part=part),
        json=json,
        command=line,
        stale=stale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NowPart:
    """What operators restrict, what rests, and what steps have set aside."""

    restrictions: Sequence[Restriction]
    breakers: Sequence[ShownBreaker]
    set_aside: Sequence[Remark]


def current(visit: Visit) -> Page:
    """Show restrictions, circuit breakers that have tripped, and records that are set aside."""
    visit.for_operators("administer")
    part = NowPart(
        restrictions=visit.store.restrictions(),
        breakers=[breaker_view(breaker, visit.now) for breaker in circuit_breakers.tripped(visit.runtime)][
            :MOST_ROWS
        ],
        set_aside=remarks.everything_set_aside(visit.runtime)[:MOST_ROWS],
    )
    return _page("Breakers", part, "/breakers", command("breakers"), Staleness(seconds=5))


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationPart:
    """The federation as a document; options may hold credentials, and are left out."""

    version: int
    text: str


def federation(visit: Visit) -> Page:
    """Show the federation in force as a document."""
    visit.for_operators("administer")
    declared = visit.store.declared_federation()
    is_small = len(declared.sites) + len(declared.storages) + len(declared.queues) <= MOST_PLACES
    text = render(to_document(without_options(declared))) if is_small else ""
    part = FederationPart(version=visit.store.version(), text=text)
    return _page("Federation", part, "/federation", command("federation", "show"))


class HistoryQuery(BaseModel):
    """The version that the page begins after."""

    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPart:
    """Versions of the federation, newest first."""

    versions: Sequence[DescribedVersion]
    current: int
    is_first_page: bool
    next_page: str


def history(visit: Visit) -> Page:
    """Show who changed the federation, when and why, and how."""
    visit.for_operators("administer")
    query = visit.query(HistoryQuery)
    versions = federation_changes.history(visit.store, query.after, VERSIONS)
    part = HistoryPart(
        versions=versions,
        current=visit.store.version() if versions else 0,
        is_first_page=not query.after,
        next_page=visit.next_page(versions),
    )
    json = f"/federation/history?after={query.after}&limit={VERSIONS}"
    return _page("History", part, json, command("federation", "history"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPart:
    """Tokens of people, newest first, without the tokens themselves."""

    tokens: Sequence[PersonToken]
    more: int


def tokens(visit: Visit) -> Page:
    """Show the valid tokens of people, and their ends."""
    visit.for_operators("administer")
    records = visit.store.tokens.people()
    part = TokensPart(tokens=records[:MOST_ROWS], more=max(len(records) - MOST_ROWS, 0))
    return _page("Tokens", part, "/tokens", command("token", "list"))


def servers(visit: Visit) -> Page:
    """Show the server processes of the store, their loops, and the work that they cannot do."""
    visit.for_operators("administer")
    part = shown_servers(visit.store)
    return _page("Servers", part, "/servers", command("servers"), Staleness(seconds=15))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDay:
    """A day, its kept worlds by step, and their bytes."""

    day: str
    steps: Mapping[str, int]
    size: int

    @property
    def command(self) -> str:
        """The command that simulates the day's work."""
        return command("simulate", day=self.day, policy=["pilotage", "early"])


class DayQuery(BaseModel):
    """The day of the listed worlds; empty: none."""

    day: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysPart:
    """Days with kept worlds, newest first, and the worlds of one of them."""

    days: Sequence[RecordedDay]
    day: str
    worlds: Sequence[KeptWorldView]
    more: int


def worlds_by_day(visit: Visit) -> dict[str, list[KeptWorldView]]:
    """Return the kept worlds of each day, both newest first."""
    by_day: dict[str, list[KeptWorldView]] = defaultdict(list)
    for world in reversed(visit.runtime.kept_worlds.listed()):
        by_day[day(world.time)].append(world)
    return by_day


def days(visit: Visit) -> Page:
    """Show the days with kept worlds, and the worlds of one."""
    visit.for_operators("administer")
    chosen = visit.query(DayQuery).day
    by_day = worlds_by_day(visit)
    worlds = by_day.get(chosen, [])
    part = DaysPart(
        days=[
            RecordedDay(
                day=name,
                steps=dict(sorted(Counter(world.step for world in day_worlds).items())),
                size=sum(world.bytes for world in day_worlds),
            )
            for name, day_worlds in by_day.items()
        ],
        day=chosen,
        worlds=worlds[:MOST_ROWS],
        more=max(len(worlds) - MOST_ROWS, 0),
    )
    return _page("Days", part, "/worlds", command("replay"), Staleness(seconds=60))


ROUTES: Sequence[Route] = (
    view("/admin", current),
    view("/admin/federation", federation),
    view("/admin/history", history),
    view("/admin/tokens", tokens),
    view("/admin/servers", servers),
    view("/admin/days", days),
)
