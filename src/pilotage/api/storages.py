"""Storages: their free space (B18), and which of them are paused because deliveries fail there (F4)."""

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls import storages
from pilotage.model.records.federation import Blacklisting
from pilotage.model.records.storage_rests import StorageRest
from pilotage.model.records.storage_spaces import FreeSpace

from .access import FOR_PEOPLE, Operator, actor
from .answers import answer, documented
from .dependencies import PREFIX, TheRuntime

router = APIRouter(prefix=f"{PREFIX}/storages", tags=["files"])

StorageName = Annotated[str, Path(max_length=200)]


class ShownRest(BaseModel):
    """A pause of reading from a storage, writing to it, or moving between two; or a trial after it."""

    source: Annotated[
        str, Field(description="Nothing is read from it; empty: the destination takes nothing.")
    ]
    destination: Annotated[
        str, Field(description="Nothing is written to it; empty: the source gives nothing.")
    ]
    since: float
    until: Annotated[float, Field(description="End of the rest, in s since 1970 UTC.")]
    failures: Annotated[int, Field(description="Deliveries that failed in a row.")]
    error: Annotated[str, Field(description="The last failure.")]
    over: Annotated[bool, Field(description="Whether one delivery may try.")]


class ShownSpace(BaseModel):
    """The free space of a storage (B18)."""

    free: Annotated[float | None, Field(description="GB; none: neither measured nor declared.")]
    source: Annotated[
        Literal["measured", "declared", "unknown"],
        Field(description="Whether the storage told it, or the federation declares it."),
    ]
    measured: Annotated[float | None, Field(description="When the storage told it, in s since 1970 UTC.")]
    total: Annotated[float | None, Field(description="GB that the storage has in all, where it tells that.")]
    problem: Annotated[str, Field(description="Why it did not tell when it was asked last; empty: it did.")]


class ShownStorage(BaseModel):
    """A storage as the federation declares it, and its pauses."""

    name: str
    site: str
    tape: Annotated[bool, Field(description="Whether its files may have to be fetched from tape.")]
    blacklisted: Annotated[list[Blacklisting], Field(description="Closed by the federation.")]
    space: Annotated[ShownSpace, Field(description="Its free space.")]
    rests: Annotated[list[ShownRest], Field(description="What rests of it, or is to be tried.")]


class Storages(BaseModel):
    """Storages by name."""

    storages: Annotated[list[ShownStorage], Field(description="Storages by name.")]


class Lifted(BaseModel):
    """The lifted pauses."""

    lifted: Annotated[list[ShownRest], Field(description="What rested.")]


@router.get("", dependencies=[FOR_PEOPLE], responses=documented(Storages, 409))
def get_storages(runtime: TheRuntime) -> Response:
    """Every storage, with its free space and the pauses that concern it."""
    found, now = storages.rests(runtime), runtime.clock()
    spaces = storages.spaces(runtime)
    shown = [
        ShownStorage(
            name=storage.name,
            site=storage.site,
            tape=storage.tape,
            blacklisted=sorted(storage.blacklisted),
            space=_space(spaces[storage.name]),
            rests=[_shown(rest, now) for rest in found if storage.name in rest.end],
        )
        for storage in sorted(runtime.store.federation().storages, key=lambda storage: storage.name)
    ]
    return answer({"storages": shown})


@router.post("/{storage}/lift", responses=documented(Lifted, 404, 409))
def post_lift(storage: StorageName, caller: Operator, runtime: TheRuntime) -> Response:
    """Lift every pause of a storage, and forget the failures there: everything is tried at once."""
    names = sorted(one.name for one in runtime.store.federation().storages)
    if storage not in names:
        raise HTTPException(404, f"there is no storage {storage!r}; known are {', '.join(names)}")
    now = runtime.clock()
    return answer({"lifted": [_shown(rest, now) for rest in storages.lift(runtime, storage, actor(caller))]})


def _space(found: FreeSpace) -> ShownSpace:
    source: Literal["measured", "declared", "unknown"] = "unknown"
    if found.gigabytes is not None:
        source = "declared" if found.told is None else "measured"
    return ShownSpace(
        free=found.gigabytes,
        source=source,
        measured=found.told,
        total=found.total,
        problem=found.problem,
    )


def _shown(rest: StorageRest, now: float) -> ShownRest:
    return ShownRest(
        source=rest.source,
        destination=rest.destination,
        since=rest.since,
        until=rest.until,
        failures=rest.failures,
        error=rest.error,
        over=rest.until <= now,
    )
