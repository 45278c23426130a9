"""Storages: their free space (B18), and their circuit breakers where deliveries fail (F4)."""

from operator import attrgetter
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.data import storage_moves
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Blacklisting
from pilotage.model.records.storage_spaces import FreeSpace
from pilotage.model.rules.restricted import by_place, of_storage
from pilotage.server.api.edge.access import FOR_PEOPLE, OperatorNow, actor
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, Text, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.places import breakers
from pilotage.server.api.places.breakers import ShownBreaker
from pilotage.store import named_page

router = APIRouter(prefix=f"{PREFIX}/storages", tags=["files"], route_class=MeasuredRoute)


class ShownSpace(BaseModel):
    """The free space of a storage (B18)."""

    free: Annotated[float | None, Field(description="GB; none: neither measured nor declared.")]
    source: Annotated[
        Literal["measured", "declared", "unknown"],
        Field(description="Whether the storage reported it, or the federation declares it."),
    ]
    measured: Annotated[float | None, Field(description="When the storage reported it, in s since 1970 UTC.")]
    total: Annotated[float | None, Field(description="GB that the storage has in all, if it reports that.")]
    problem: Annotated[str, Field(description="Why its last report failed; empty: it did not.")]


class ShownStorage(BaseModel):
    """A storage as the federation declares it, and its circuit breakers."""

    name: str
    site: str
    tape: Annotated[bool, Field(description="Whether its files may have to be fetched from tape.")]
    blacklisted: Annotated[list[Blacklisting], Field(description="What is forbidden there now.")]
    restriction: Annotated[
        str, Field(description="Who drains or has closed it, and why; empty: no operator.")
    ]
    space: Annotated[ShownSpace, Field(description="Its free space.")]
    breakers: Annotated[list[ShownBreaker], Field(description="Circuit breakers of it that have tripped.")]


class Storages(PageOfList):
    """Storages by name."""

    storages: Annotated[list[ShownStorage], Field(description="Storages by name.")]


@router.get("", dependencies=[FOR_PEOPLE], responses=documented(Storages, 409))
def get_storages(runtime: TheRuntime, after: After = "", limit: Limit = 10_000) -> Response:
    """Storages by name, with their free space and the circuit breakers that concern them."""
    return listed("storages", named_page(shown_storages(runtime), attrgetter("name"), after, limit))


class MoveOrder(RequestBody):
    """Where the files of a storage go. One call moves a page of them."""

    to: Annotated[str, Field(max_length=200, description="The new storage.")]
    after: Annotated[Text, Field(description="Go on after this file: `next` of the page before.")] = ""
    same_place: Annotated[
        bool, Field(description="Both are names of one place: look there, and copy nothing.")
    ] = False
    again: Annotated[bool, Field(description="Ask again for files whose transfer failed.")] = False
    dry_run: Annotated[bool, Field(description="Only tell what would be done.")] = False


@router.post("/{storage}/move", responses=documented(storage_moves.MovePage, 404, 409))
def post_move(
    storage: Annotated[str, Path(max_length=200)], body: MoveOrder, caller: OperatorNow, runtime: TheRuntime
) -> Response:
    """Let the files of a drained storage follow to another one, by transfers, or record them there.

    Ask for all pages, and again until `left` is 0. Bytes of originals stay where they are.
    """
    order = storage_moves.WantedMove(
        old=storage, new=body.to, same_place=body.same_place, again=body.again, dry_run=body.dry_run
    )
    return answer(storage_moves.move(runtime, order, body.after, actor(caller)))


def shown_storages(runtime: Runtime) -> list[ShownStorage]:
    """Return every storage as people see it, by name. Raises ``NoFederation``."""
    tripped, now = circuit_breakers.of_storages(runtime), runtime.clock()
    spaces, restrictions = storage_moves.free_space(runtime), by_place(runtime.store.restrictions())
    return [
        ShownStorage(
            name=storage.name,
            site=storage.site,
            tape=storage.tape,
            blacklisted=sorted(storage.blacklisted),
            restriction="; ".join(restriction.text for restriction in of_storage(restrictions, storage)),
            space=_space(spaces[storage.name]),
            breakers=[
                breakers.breaker_view(breaker, now) for breaker in tripped if storage.name in breaker.place
            ],
        )
        for storage in sorted(runtime.store.federation().storages, key=lambda storage: storage.name)
    ]


def _space(space: FreeSpace) -> ShownSpace:
    source: Literal["measured", "declared", "unknown"] = "unknown"
    if space.gigabytes is not None:
        source = "declared" if space.measured_at is None else "measured"
    return ShownSpace(
        free=space.gigabytes,
        source=source,
        measured=space.measured_at,
        total=space.total,
        problem=space.problem,
    )
