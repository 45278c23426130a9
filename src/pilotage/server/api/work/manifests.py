"""The manifest of a task that has ended: a document to cite, and to submit the task again."""

from collections.abc import Generator, Iterable
from contextlib import ExitStack
from functools import partial

from fastapi import APIRouter, HTTPException, Response

from pilotage.explain import crates
from pilotage.explain.crates import CrateTask
from pilotage.flow.errors import NotNow
from pilotage.flow.outside.file_readers import TooManyReaders
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import LIVE_TASKS
from pilotage.release import full_version
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import FileContent, documented_bytes
from pilotage.server.api.edge.dependencies import PREFIX, Id, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.tasks import visible_task
from pilotage.store import TaskDetails

router = APIRouter(prefix=f"{PREFIX}/tasks", tags=["tasks"], route_class=MeasuredRoute)

CHUNK = 1 << 18
"""Bytes that are sent together."""

LINKED_DATA = "application/ld+json"


@router.get(
    "/{task}/manifest",
    response_class=FileContent,
    responses=documented_bytes(404, 409, media_type=LINKED_DATA),
)
def get_manifest(task: Id, caller: Person, runtime: TheRuntime) -> Response:
    """What ran, as the `ro-crate-metadata.json` of a Process Run Crate: for citations and `pilotage rerun`.

    It has the task's document, its jobs with their parameters, places and times, and its inputs and outputs
    with sizes and checksums. A task of more than 10,000 jobs is one action. 409 before the task has ended.
    """
    details = visible_task(runtime.store, caller, task)
    if details.state in LIVE_TASKS:
        raise NotNow(f"task {task} is {details.state}: it has a manifest when it has ended")
    with ExitStack() as stack:
        try:
            stack.enter_context(runtime.file_readers.place(caller.identity.key))
        except TooManyReaders as error:
            raise HTTPException(503, str(error), headers={"Retry-After": "2"}) from error
        pieces = crates.crate(_crate_task(runtime, details), partial(runtime.store.job_lists.runs, task))
        chunks = _chunks(pieces, stack.pop_all())
    next(chunks)  # one that has not begun would not give its place back
    disposition = {"Content-Disposition": f'attachment; filename="{crates.NAME}"'}
    return FileContent(chunks, headers=disposition, media_type=LINKED_DATA)


def _crate_task(runtime: Runtime, task: TaskDetails) -> CrateTask:
    federation = runtime.store.federation()
    return CrateTask(
        id=task.id,
        name=task.name,
        state=task.state,
        owner=task.owner,
        vo=task.vo,
        created=task.created,
        ended=task.since,
        error=task.error,
        jobs=sum(task.jobs.values()),
        spec=task.spec,
        federation=federation.name,
        sites={queue.name: queue.site for queue in federation.queues},
        version=full_version(),
    )


def _chunks(pieces: Iterable[bytes], place: ExitStack) -> Generator[bytes]:
    """Yield nothing, then the pieces together in larger ones. Give back a place at the end."""
    chunk = bytearray()
    with place:
        yield b""
        for piece in pieces:
            chunk += piece
            if len(chunk) >= CHUNK:
                yield bytes(chunk)
                chunk.clear()
        yield bytes(chunk)
