"""What lists of sites, queues and storages share: filters by name and site, and pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Annotated, Generic, Protocol, TypeVar

from pydantic import BaseModel, Field

from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.web.pages import Visit
from pilotage.store import named_page

ROWS = 100
"""Places of a page."""

Text = Annotated[str, Field(max_length=200, pattern=TEXT)]


class PlaceQuery(BaseModel):
    """The parameters of a list's address: a pattern of names, a site, and the name before the page."""

    name: Text = ""
    site: Text = ""
    after: Text = ""


class ShownPlace(Protocol):
    """A queue or storage of a site; a site is its own."""

    @property
    def name(self) -> str: ...
    @property
    def site(self) -> str: ...


_Place = TypeVar("_Place", bound=ShownPlace)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePage(Generic[_Place]):
    """Places of one page of a list, by name."""

    rows: Sequence[_Place]
    total: int | None
    query: PlaceQuery
    next_page: str

    @property
    def is_filtered(self) -> bool:
        """Return whether the query selects some places."""
        return bool(self.query.name or self.query.site)


def page_of(visit: Visit, query: PlaceQuery, places: Sequence[_Place]) -> PlacePage[_Place]:
    """Return the page of the places that the query asks for. A word without * or ? is a part of the name."""
    is_pattern = "*" in query.name or "?" in query.name
    pattern = query.name if is_pattern else f"*{query.name.replace('[', '[[]')}*"
    chosen = [
        place for place in places if fnmatchcase(place.name, pattern) and query.site in ("", place.site)
    ]
    page = named_page(chosen, attrgetter("name"), query.after, ROWS)
    return PlacePage(rows=page.rows, total=page.total, query=query, next_page=visit.next_page(page))
