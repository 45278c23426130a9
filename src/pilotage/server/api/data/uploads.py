"""Files that people upload into the catalogue."""

from functools import partial
from typing import Annotated

import anyio
from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.data import uploads
from pilotage.flow.calls.data.uploads import MOST_SECONDS, WantedUpload
from pilotage.flow.outside.file_readers import TooManyReaders
from pilotage.flow.runtime import Runtime
from pilotage.model.records.work import File
from pilotage.model.values.identity import Credential
from pilotage.model.values.paths import FILE_NAMES, is_file_name, is_output
from pilotage.model.values.scopes import default_scope, identifier, split_identifier
from pilotage.model.values.types import Checksum
from pilotage.ports.moving import StorageError, WrongFileError
from pilotage.server.api.data.files import FileId
from pilotage.server.api.data.readable_scopes import check_scope
from pilotage.server.api.edge.access import Person, actor
from pilotage.server.api.edge.answers import answer, documented, field_refused
from pilotage.server.api.edge.body_streams import BodyStream, announced_size
from pilotage.server.api.edge.dependencies import PREFIX, TheRuntime
from pilotage.server.api.edge.guard import BODY_TIMEOUT
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=f"{PREFIX}/files", tags=["files"], route_class=MeasuredRoute)

LEAST_RATE = 65_536
"""Bytes per second at which a file must come after its first minute: slow senders take others' places."""


class Uploaded(BaseModel):
    """A file that is in the catalogue now."""

    file: str
    size: int
    checksum: str
    storage: Annotated[str, Field(description="Where it is.")]
    new: Annotated[bool, Field(description="False: it was there already, with the same bytes.")]


@router.put("/content", responses=documented(Uploaded, 404, 409, 411, 502))
async def put_content(
    file: FileId,
    checksum: Annotated[Checksum, Query(description="of the bytes in the body, such as `sha256:...`")],
    request: Request,
    caller: Person,
    runtime: TheRuntime,
    storage: Annotated[str, Query(max_length=200, description="empty: the only one that takes files")] = "",
    replace: Annotated[bool, Query(description="also where the name has other bytes")] = False,
) -> Response:
    """Upload a file into the catalogue. The body is its bytes, and Content-Length its size.

    It has its name when all bytes are at the storage and its checksum is right. A repeated upload of the same
    bytes changes nothing. 503 while as many files move as the server can move.
    """
    size = announced_size(request)
    name, owner = _name(file, checksum, caller), caller.identity
    upload = WantedUpload(
        file=File(name=name, size=size, checksum=checksum),
        owner=owner,
        actor=actor(caller),
        storage=storage,
        replace=replace,
        is_operator=caller.role == "operator",
    )
    body = BodyStream(request, "you", min(MOST_SECONDS, BODY_TIMEOUT + size / LEAST_RATE))
    # A separate limit: it takes none of the threads that all calls share.
    store = partial(_stored, runtime, upload, body)
    return answer(await anyio.to_thread.run_sync(store, limiter=anyio.CapacityLimiter(1)))


def _name(file: str, checksum: str, caller: Credential) -> str:
    """Return the identifier of a file that the caller may write. Raises HTTPException."""
    scope, name = split_identifier(file)
    if not is_file_name(name):
        raise field_refused("file", FILE_NAMES)
    if is_output(name):
        raise field_refused("file", f"{name!r} is below the folder of outputs: only tasks make files there")
    if not checksum:
        raise field_refused("checksum", "is empty; give that of the file, such as sha256:...")
    scope = scope or default_scope(caller.identity, name)
    check_scope(caller, scope)
    return identifier(scope, name)


def _stored(runtime: Runtime, upload: WantedUpload, body: BodyStream) -> uploads.UploadedFile:
    if known := uploads.present(runtime, upload):
        return known
    uploads.refuse_beyond_quotas(runtime, upload)
    place = uploads.storage_for(runtime, upload)
    try:
        return uploads.store(runtime, upload, place, body)
    except TooManyReaders as error:
        raise HTTPException(503, str(error), headers={"Retry-After": "2"}) from error
    except WrongFileError as error:
        raise field_refused("checksum", str(error)) from error
    except (StorageError, LookupError, OSError) as error:
        raise HTTPException(502, f"{upload.file.name} is not stored: {error}") from error
