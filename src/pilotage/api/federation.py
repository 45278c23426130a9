"""The federation as it is declared, and the world as decisions read it."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel

from pilotage.federation.faults import BadDocument, Fault
from pilotage.flow.calls import acceptance
from pilotage.model.federation import ComputingElement, Federation
from pilotage.model.world import World
from pilotage.store import FederationRenamed

from .access import FOR_OPERATORS, Operator, Person, actor
from .answers import answer, documented, faults_of
from .dependencies import PREFIX, TheRuntime, TheStore
from .documents import Declared, read

router = APIRouter(prefix=PREFIX, tags=["federation"])


class Saved(BaseModel):
    """The number of the version that is in force now."""

    version: int


@router.get("/federation", responses=documented(Federation, 409))
def get_federation(caller: Person, store: TheStore) -> Response:
    """The federation in force. Options, which may hold credentials, are shown to operators alone."""
    federation = store.federation()
    return answer(federation if caller.role == "operator" else without_options(federation))


@router.put("/federation", responses=documented(Saved))
def put_federation(body: Annotated[Declared, Body()], caller: Operator, runtime: TheRuntime) -> Response:
    """Replace the federation, without a restart; nothing of one that has faults is taken."""
    federation = read(Federation, body, acceptance.faults)
    if isinstance(federation, BadDocument):
        return answer({"detail": faults_of(federation)}, 422)
    try:
        version = runtime.save_federation(federation, actor(caller))
    except FederationRenamed as error:
        return answer({"detail": faults_of(BadDocument([Fault(("name",), str(error))]))}, 422)
    return answer({"version": version})


@router.get("/world", dependencies=[FOR_OPERATORS], responses=documented(World, 409))
def get_world(runtime: TheRuntime) -> Response:
    """All that decisions read, as of now: any of them can be made again from this."""
    return answer(runtime.store.snapshots.whole(runtime.clock(), runtime.seeds()))


def without_options(federation: Federation) -> Federation:
    """The same without options: of storages, computing elements, their servers, catalogues and plugins."""
    queues = tuple(
        replace(queue, computing_element=queue.computing_element and _bare(queue.computing_element))
        for queue in federation.queues
    )
    storages = tuple(replace(storage, options={}) for storage in federation.storages)
    catalogues = tuple(replace(catalogue, options={}) for catalogue in federation.catalogues)
    return replace(federation, queues=queues, storages=storages, catalogues=catalogues, plugin_options={})


def _bare(element: ComputingElement) -> ComputingElement:
    # A server's options are added to those of its element, so they hold credentials as well.
    servers = tuple(replace(server, options={}) for server in element.servers)
    return replace(element, options={}, servers=servers)
