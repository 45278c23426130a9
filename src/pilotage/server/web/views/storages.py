"""Storages: the list with free space, and one with its queues and circuit breakers."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.server.api.data.storages import ShownStorage, shown_storages
from pilotage.server.web.action_model import ActionLink
from pilotage.server.web.pages import Page, Staleness, Visit, command, view
from pilotage.server.web.place_actions import verbs
from pilotage.server.web.views.places import PlacePage, PlaceQuery, page_of

MOST_QUEUES = 100
"""Most queues of a storage that a page names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragesModel:
    """Storages with their space."""

    page: PlacePage[ShownStorage]
    done: str


def storages(visit: Visit) -> Page:
    """Show storages by name, with their free space, restrictions, and circuit breakers."""
    query = visit.query(PlaceQuery)
    model = StoragesModel(page=page_of(visit, query, shown_storages(visit.runtime)), done=visit.done)
    return Page(
        template="storages.html",
        title="Storages",
        section="Storages",
        model=model,
        json="/storages",
        command=command("storages"),
        stale=Staleness(everybody=True, kinds=("transfer", "breaker", "federation"), seconds=5),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageModel:
    """One storage."""

    storage: ShownStorage
    url: str
    queues: Sequence[str]
    more_queues: int
    verbs: Sequence[ActionLink]
    done: str


def storage(visit: Visit) -> Page:
    """Show one storage: its space, restrictions, its queues and circuit breakers."""
    name = visit.request.path_params["storage"]
    view = next((candidate for candidate in shown_storages(visit.runtime) if candidate.name == name), None)
    if view is None:
        raise HTTPException(404, f"there is no storage {name!r}; pilotage storages lists them")
    federation = visit.store.declared_federation()
    queues = sorted(queue.name for queue in federation.queues if queue.storage == name)
    model = StorageModel(
        storage=view,
        url=next(storage.url for storage in federation.storages if storage.name == name),
        queues=queues[:MOST_QUEUES],
        more_queues=max(len(queues) - MOST_QUEUES, 0),
        verbs=verbs(visit, "storage", name),
        done=visit.done,
    )
    return Page(
        template="storage.html",
        title=name,
        section="Storages",
        model=model,
        json="/storages",
        command=command("storages"),
        stale=Staleness(everybody=True, kinds=("transfer", "breaker", "federation"), seconds=5),
    )


ROUTES: Sequence[Route] = (view("/storages", storages), view("/storages/{storage}", storage))
