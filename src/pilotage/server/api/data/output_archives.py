"""Many small outputs of a task in one answer: a tar archive."""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response

from pilotage.flow.outside.file_readers import TooManyReaders
from pilotage.model.values.paths import path_in_job
from pilotage.model.values.scopes import name_of
from pilotage.server.api.data.files import places_of
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import FileContent, documented_bytes
from pilotage.server.api.edge.dependencies import PREFIX, Id, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.tasks import visible_task
from pilotage.store.files.catalogue import CatalogueEntry

router = APIRouter(prefix=f"{PREFIX}/tasks", tags=["tasks"], route_class=MeasuredRoute)

LARGEST = 1 << 20
"""Most bytes of a file in an archive. Larger ones gain nothing, and can be resumed alone."""

MOST_FILES, MOST_BYTES = 10_000, 64 << 20
"""Most files, and bytes of files, of one answer."""

MOST_SECONDS = 30.0
"""Time limit for reading an answer's files, in s: storages may be slow. The rest comes with the next."""

CHUNK = 1 << 18
"""Bytes that are sent together."""

TAR = "application/x-tar"


@router.get(
    "/{task}/outputs/archive",
    response_class=FileContent,
    responses=documented_bytes(404, media_type=TAR),
)
def get_output_archive(
    task: Id,
    caller: Person,
    runtime: TheRuntime,
    after: Annotated[
        str, Query(max_length=1000, description="only files after this one, by identifier: to go on")
    ] = "",
    match: Annotated[str, Query(min_length=1, max_length=500, description="only names that match")] = "*",
    merged: Annotated[bool, Query(description="only what merge jobs made")] = False,
) -> Response:
    """A task's outputs of at most 1 MiB as a tar archive: each job's as JOB/NAME, its merge job's as NAME.

    They come by identifier, 10,000 files or 64 MiB or 30 s at most. The next request begins `after` the last
    one. Files that cannot be read are left out.
    """
    visible_task(runtime.store, caller, task)
    candidates = (
        (entry, path if is_merged else f"{entry.file.job}/{path}")
        for entry, is_merged in runtime.store.catalogue.outputs(task, after)
        if entry.file.size <= LARGEST and entry.replicas
        if is_merged or not merged
        if fnmatchcase(path := path_in_job(name_of(entry.file.name)), match)
    )
    federation = runtime.store.federation()
    chosen = _bounded(candidates)
    try:
        contents = runtime.file_readers.read_each(
            [(places_of(entry, federation), entry.file.size) for entry, _ in chosen],
            caller.identity.key,
        )
    except TooManyReaders as error:
        raise HTTPException(503, str(error), headers={"Retry-After": "2"}) from error
    return FileContent(_archive([name for _, name in chosen], contents), media_type=TAR)


def _bounded(candidates: Iterable[tuple[CatalogueEntry, str]]) -> list[tuple[CatalogueEntry, str]]:
    """Return the first ones, as many as one answer may have. Others are not even read."""
    chosen: list[tuple[CatalogueEntry, str]] = []
    total = 0
    for candidate in candidates:
        total += candidate[0].file.size
        if total > MOST_BYTES or len(chosen) == MOST_FILES:
            break
        chosen.append(candidate)
    return chosen


def _archive(names: Sequence[str], contents: Generator[bytes | None]) -> Generator[bytes]:
    """Yield a tar archive, in chunks."""
    import tarfile  # a server that sends none is smaller without it

    waiting = bytearray()
    with closing(contents):
        for name, content in zip(names, _in_time(contents), strict=False):
            if content is not None:
                waiting += _member(name, content)
            if len(waiting) >= CHUNK:
                yield bytes(waiting)
                waiting.clear()
    yield bytes(waiting) + tarfile.NUL * (2 * tarfile.BLOCKSIZE)


def _in_time(contents: Iterator[bytes | None]) -> Iterator[bytes | None]:
    until = time.monotonic() + MOST_SECONDS
    for content in contents:
        yield content
        if time.monotonic() >= until:
            return


def _member(name: str, content: bytes) -> bytes:
    """Return a file as tar archives have it: a header, and whole blocks."""
    import tarfile

    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(content), int(time.time())
    return member.tobuf(tarfile.PAX_FORMAT) + content + tarfile.NUL * (-len(content) % tarfile.BLOCKSIZE)
