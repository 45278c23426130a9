"""Calls of pilots for files at storages that they cannot open themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import anyio
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from pilotage.agent.wire import Access
from pilotage.agent.wire import FileRequest as Wanted
from pilotage.flow.calls.pilots import pilot_files
from pilotage.flow.outside.file_readers import TooManyReaders
from pilotage.model.values.types import FileName, StoredInteger, Whole
from pilotage.ports.moving import StorageError
from pilotage.server.api.edge.access import PilotId
from pilotage.server.api.edge.answers import FileContent, answer, documented, documented_bytes
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.body_streams import BodyStream, announced_size
from pilotage.server.api.edge.dependencies import PREFIX, Id, TheRuntime
from pilotage.server.api.edge.guard import LARGEST_FILE
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=f"{PREFIX}/pilot", tags=["pilot"], route_class=MeasuredRoute)

StorageName = Annotated[str, Field(max_length=200)]


class FileRequest(RequestBody):
    """A file of an attempt: an input at a source (empty: the queue's storage), or, with a size, an output."""

    job: StoredInteger
    attempt: StoredInteger
    name: FileName
    source: StorageName = ""
    size: Annotated[Whole, Field(ge=0, le=LARGEST_FILE)] | None = None


class Stored(BaseModel):
    """A written file: bytes and checksum."""

    size: int
    checksum: str


def _input(
    job: Id,
    attempt: Id,
    name: Annotated[FileName, Query(description="name of the file")],
    source: Annotated[StorageName, Query(description="where it is read from; empty: the queue's")] = "",
) -> Wanted:
    return Wanted(job, attempt, name, source)


Asked = Annotated[Wanted, Depends(_input)]


@router.post("/access", responses=documented(Access, 404, 502))
def post_access(body: FileRequest, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Return an address for one file and a short time, or an empty one if the server hands on the file."""
    with _explained():
        return answer(pilot_files.access(runtime, pilot, Wanted(**body.model_dump())))


@router.get("/content/{job}/{attempt}", response_class=FileContent, responses=documented_bytes(404, 502))
def get_pilot_content(file: Asked, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Read an input of a job through the server. 503 while it hands on as many files as it can."""
    with _explained():
        size, chunks = pilot_files.read(runtime, pilot, file)
    return FileContent(chunks, headers={"Content-Length": str(size)})


@router.put("/content/{job}/{attempt}", responses=documented(Stored, 404, 411, 502))
async def put_pilot_content(file: Asked, request: Request, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Write an output of a job through the server. 503 while it hands on as many files as it can."""
    output = Wanted(file.job, file.attempt, file.name, size=announced_size(request))
    store = partial(pilot_files.store, runtime, pilot, output, BodyStream(request, "the pilot"))
    with _explained():
        # A separate limit: it takes none of the threads that all calls share.
        stored = await anyio.to_thread.run_sync(store, limiter=anyio.CapacityLimiter(1))
    return answer(stored)


@contextmanager
def _explained() -> Iterator[None]:
    """Map errors to answers: 403 for other people's files, 404 for a missing one, 502, 503."""
    try:
        yield
    except pilot_files.NotTheirs as error:
        raise HTTPException(403, str(error)) from error
    except TooManyReaders as error:
        raise HTTPException(503, str(error), headers={"Retry-After": "10"}) from error
    except (StorageError, LookupError, OSError) as error:
        gone = isinstance(error.__cause__, FileNotFoundError)
        raise HTTPException(404 if gone else 502, str(error)) from error
