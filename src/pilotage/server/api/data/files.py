"""The catalogue: files by scope and name, their storages, and their bytes."""

import re
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.explain import publications
from pilotage.federation import checks
from pilotage.flow.calls.data import catalogue, corrections
from pilotage.flow.calls.data.inputs import SCAN_TIME
from pilotage.flow.outside.file_readers import TooManyReaders
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.work import InputFile
from pilotage.model.rules.folders import OthersFilesError, may_list, not_yours, refuse_others
from pilotage.model.values.identity import Credential
from pilotage.model.values.paths import is_output, is_stored_here
from pilotage.model.values.patterns import literal_beginning, matcher
from pilotage.model.values.scopes import (
    default_scope,
    identifier,
    name_of,
    scopes_of,
    split_identifier,
)
from pilotage.ports.moving import StorageError, WrongPatternError
from pilotage.server.api.data.readable_scopes import check_scope, is_readable
from pilotage.server.api.edge.access import Person, actor, may_read_file
from pilotage.server.api.edge.answers import (
    FileContent,
    PageOfList,
    answer,
    documented,
    documented_bytes,
    field_refused,
    listed,
)
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import ListPage, ReplicaView, Store, cut
from pilotage.store.files.catalogue import CatalogueEntry

router = APIRouter(prefix=f"{PREFIX}/files", tags=["files"], route_class=MeasuredRoute)

MOST_FILES = 10_000
"""Most files that one request may register."""

FileId = Annotated[str, Query(min_length=1, max_length=1000, description="SCOPE:NAME, or a name alone")]
Pattern = Annotated[
    str, Query(min_length=1, max_length=500, description="`*` within a folder, `**` for any folders")
]


class FileView(BaseModel):
    """A file of the catalogue, and where it is."""

    file: str
    size: int
    checksum: str
    task: int | None
    job: int | None
    since: Annotated[
        float | None,
        Field(description="When it came to the first of its storages, in s since 1970 UTC; none: unknown."),
    ]
    replicas: list[ReplicaView]
    published: list[str] = []


class Files(PageOfList):
    """Files by identifier."""

    files: list[FileView]


class Registration(RequestBody):
    """Files to register, each with its storages. Without a scope they belong to the VO's.

    With ``each``, files that cannot be registered are reported and the others are registered. Otherwise it is
    all or none. With ``dry_run`` the answer only counts what would be new.
    """

    files: Annotated[list[InputFile], Field(min_length=1, max_length=MOST_FILES)]
    each: Annotated[bool, Field(description="Whether the sound ones are registered without the others.")] = (
        False
    )
    dry_run: bool = False


class RefusedFile(BaseModel):
    """A file that is not registered, and why."""

    at: Annotated[int, Field(description="Its place among those that were given, from 0.")]
    reason: Annotated[str, Field(description="What is wrong, and what would be right.")]


class Registered(BaseModel):
    """The number of newly registered files, and the refused ones."""

    new: int
    refused: list[RefusedFile] = []


class Listing(RequestBody):
    """A pattern of files at a storage. With ``dry_run`` the answer only counts what would be new."""

    storage: Annotated[str, Field(min_length=1, max_length=200)]
    match: Annotated[str, Field(min_length=1, max_length=500)]
    scope: Annotated[str, Field(max_length=410)] = ""
    dry_run: bool = False


class UnregisteredFile(BaseModel):
    """A file that a listing found but that is not registered."""

    name: Annotated[str, Field(description="Its path at the storage.")]
    reason: Annotated[str, Field(description="What is wrong, and what would be right.")]


class Listed(BaseModel):
    """Numbers of registered and of new files, and the refused ones."""

    files: int
    new: int
    refused: list[UnregisteredFile] = []


class Forgotten(RequestBody):
    """A file to forget, or its replica at one storage.

    With ``dry_run`` the answer only lists what would go.
    """

    file: Annotated[str, Field(min_length=1, max_length=1000)]
    storage: Annotated[str, Field(max_length=200)] = ""
    dry_run: bool = False


class WouldForget(BaseModel):
    """The replicas to forget, by storage: copies and uploads that would be deleted, originals that stay."""

    file: str
    deleted: list[str]
    kept: list[str]


@router.get("", responses=documented(Files))
def get_files(
    caller: Person,
    store: TheStore,
    match: Pattern = "**",
    scope: str = "",
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """List files of a scope by identifier.

    Without a scope, list files of each of the caller's scopes in turn.
    """
    scopes = [scope] if scope else list(scopes_of(caller.identity))
    for scope_name in scopes:
        if not is_readable(caller, scope_name, store):
            check_scope(caller, scope_name)
    accepts = matcher(match)
    entries: list[CatalogueEntry] = []
    for scope_name in sorted(scopes):
        prefix = identifier(scope_name, literal_beginning(match))
        room = limit + 1 - len(entries)
        if room:
            entries += store.catalogue.matching(prefix, lambda file: accepts(name_of(file)), after, room)
    rows, following = cut(entries, limit, lambda entry: entry.file.name)
    # To count what matches a pattern would read the whole catalogue.
    return listed("files", ListPage(rows, None, {}, following), _views(store, rows))


@router.get("/describe", responses=documented(FileView, 404))
def get_description(file: FileId, caller: Person, store: TheStore) -> Response:
    """Describe one file: size, checksum, origin, and where it is."""
    (view,) = _views(store, [_entry(caller, store, file)])
    view.published = list(publications.of_file(store.publication_queries.of_file(view.file)))
    return answer(view)


@router.get("/content", response_class=FileContent, responses=documented_bytes(404, 416, 502, part=True))
def get_content(
    file: FileId,
    caller: Person,
    runtime: TheRuntime,
    storage: Annotated[str, Query(max_length=200, description="read its replica there, and no other")] = "",
    as_it_lies: Annotated[
        bool, Query(description="also where its size is not the one that is known")
    ] = False,
    range_: Annotated[str, Header(alias="Range", max_length=100)] = "",
) -> Response:
    """Read a file through the server. `Range: bytes=N-` resumes where an earlier answer broke off.

    With `as_it_lies` the answer has no length, and may have one byte more than the known size.
    """
    entry = _entry(caller, runtime.store, file)
    offset = 0 if as_it_lies else _offset(range_, entry.file.size)
    places = _places(entry, runtime.store.federation(), storage)
    try:
        chunks = runtime.file_readers.read(places, offset, caller.identity.key)
    except TooManyReaders as error:
        raise HTTPException(503, str(error), headers={"Retry-After": "2"}) from error
    except StorageError as error:
        raise HTTPException(502, f"{entry.file.name} cannot be read: {error}") from error
    if as_it_lies:
        return FileContent(_at_most(chunks, entry.file.size + 1))
    headers = {"Content-Length": str(entry.file.size - offset), "Accept-Ranges": "bytes"}
    if range_:
        headers["Content-Range"] = f"bytes {offset}-{entry.file.size - 1}/{entry.file.size}"
    return FileContent(chunks, 206 if range_ else 200, headers)


def _places(entry: CatalogueEntry, federation: Federation, storage: str) -> list[tuple[Storage, str]]:
    """Return storages that a file can be read from; with ``storage``, only this one.

    Raises HTTPException if there is none.
    """
    places = [place for place in places_of(entry, federation) if storage in ("", place[0].name)]
    if not places:
        at = storage or "any storage of the federation"
        raise HTTPException(404, f"{entry.file.name} has no replica at {at}")
    return places


def places_of(entry: CatalogueEntry, federation: Federation) -> list[tuple[Storage, str]]:
    """Return the storages of a federation that a file can be read from, tapes last, each with its path."""
    storages = {storage.name: storage for storage in federation.storages}
    lying = sorted(
        (replica for replica in entry.replicas if replica.storage in storages),
        key=lambda replica: (storages[replica.storage].tape, replica.storage),
    )
    return [(storages[replica.storage], replica.place) for replica in lying]


@router.post("", responses=documented(Registered, 409))
def post_files(body: Registration, caller: Person, runtime: TheRuntime) -> Response:
    """Register files that storages have under their names.

    All are recorded, or none, unless `each` is set.
    """
    owner = caller.identity
    files = [replace(file, scope=file.scope or default_scope(owner, file.name)) for file in body.files]
    for scope in {file.scope for file in files}:
        check_scope(caller, scope)
    bound = None if caller.role == "operator" else owner
    faults = dict(checks.file_faults(files, runtime.store.federation(), bound))
    if not body.dry_run and (body.each or not faults):
        accepted = [file for at, file in enumerate(files) if at not in faults]
        corrections.correct(runtime, accepted, actor(caller), trusted=caller.role == "operator")
    if body.each:
        sound = {at: file for at, file in enumerate(files) if at not in faults}
        new, conflicts = catalogue.register_each(runtime, sound, actor(caller), body.dry_run)
        refused = sorted((faults | conflicts).items())
        return answer(
            Registered(new=new, refused=[RefusedFile(at=at, reason=reason) for at, reason in refused])
        )
    for at, reason in faults.items():
        raise field_refused(f"files.{at}", reason)
    return answer(Registered(new=catalogue.register(runtime, files, actor(caller), body.dry_run)))


@router.post("/scan", responses=documented(Listed, 404, 502))
def post_listing(body: Listing, caller: Person, runtime: TheRuntime) -> Response:
    """Register the files at a storage that match a pattern; copies and outputs are none of them.

    Links within the storage are followed. The answer names files that cannot be registered, other links and
    special files.
    """
    scope = body.scope or scopes_of(caller.identity)[0]
    check_scope(caller, scope)
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    if body.storage not in storages:
        raise HTTPException(
            404, f"there is no storage {body.storage!r}; known are {', '.join(sorted(storages))}"
        )
    place, person = storages[body.storage], None if caller.role == "operator" else caller.identity
    if person and not may_list(place, body.match, person):
        raise HTTPException(403, not_yours(place, body.match, person))
    if is_output(body.match):
        raise field_refused("match", f"{body.match!r} stands for outputs of tasks, which are known already")
    try:
        with runtime.look_ups.place(place.name, caller.identity, SCAN_TIME):
            scanned = runtime.deliveries.scan(place, body.match, SCAN_TIME, any_name=True)
        paths = getattr(scanned, "paths", {})
        files = [replace(file, scope=scope) for file in scanned if not is_output(file.name)]
        refuse_others(files, place, person, paths)
    except OthersFilesError as error:
        raise HTTPException(403, str(error)) from error
    except WrongPatternError as error:
        raise field_refused("match", str(error)) from error
    except (StorageError, LookupError, OSError) as error:
        raise HTTPException(502, f"{body.storage} cannot be listed: {error}") from error
    new, conflicts = catalogue.register_each(
        runtime, dict(enumerate(files)), actor(caller), body.dry_run, paths
    )
    refused = {files[at].name: reason for at, reason in conflicts.items()} | getattr(scanned, "left_out", {})
    refusals = [UnregisteredFile(name=_printable(name), reason=refused[name]) for name in sorted(refused)]
    return answer(Listed(files=len(files) - len(conflicts), new=new, refused=refusals))


@router.post("/forget", status_code=204, responses=documented(WouldForget, 404, 409))
def post_forgotten(body: Forgotten, caller: Person, runtime: TheRuntime) -> Response:
    """Forget a file, or one replica. Copies that Pilotage made and uploads are deleted.

    Originals stay where they are.

    With `dry_run` nothing is done, and the answer lists what would be.
    """
    entry = _entry(caller, runtime.store, body.file)
    check_scope(caller, split_identifier(entry.file.name)[0])
    if body.storage and body.storage not in {replica.storage for replica in entry.replicas}:
        raise HTTPException(404, f"{entry.file.name} has no replica at {body.storage!r}")
    if body.dry_run:
        gone = catalogue.to_forget(runtime, entry, body.storage)
        copies = [replica.storage for replica in gone if is_stored_here(replica.path)]
        originals = [replica.storage for replica in gone if not is_stored_here(replica.path)]
        return answer(WouldForget(file=entry.file.name, deleted=copies, kept=originals))
    catalogue.forget(runtime, entry, body.storage, actor(caller))
    return Response(status_code=204)


def _entry(caller: Credential, store: Store, file: str) -> CatalogueEntry:
    scope, name = split_identifier(file)
    scope = scope or default_scope(caller.identity, name)
    entry = store.catalogue.entry(identifier(scope, name))
    if not is_readable(caller, scope, store) and not (entry and may_read_file(store, caller, entry.file)):
        check_scope(caller, scope)
    if entry is None:
        raise HTTPException(404, f"the catalogue has no file {identifier(scope, name)}")
    return entry


def _views(store: Store, entries: Iterable[CatalogueEntry]) -> list[FileView]:
    urls = {storage.name: storage.url for storage in store.federation().storages}
    entries = list(entries)
    since = store.catalogue.since([entry.file.name for entry in entries])
    return [
        # Do not validate: ten thousand of these in one answer would take seconds.
        FileView.model_construct(
            file=entry.file.name,
            size=entry.file.size,
            checksum=entry.file.checksum,
            task=entry.file.task,
            job=entry.file.job,
            since=since.get(entry.file.name),
            replicas=[ReplicaView.of(replica, urls) for replica in entry.replicas],
        )
        for entry in entries
    ]


def _printable(name: str) -> str:
    """Return a storage's name as text that can be sent. Not every name can."""
    return name.encode(errors="backslashreplace").decode()


def _at_most(chunks: Generator[bytes], size: int) -> Generator[bytes]:
    """Yield the first ``size`` bytes, and close the rest."""
    with closing(chunks):
        while size > 0 and (chunk := next(chunks, b"")):
            yield chunk[:size]
            size -= len(chunk)


def _offset(range_: str, size: int) -> int:
    """Return where to start reading a file. 416 for any range except one from a byte of the file to its
    end."""
    if not range_:
        return 0
    # Of all forms of a range, our clients use only this one.
    match = re.fullmatch(r"bytes=(\d{1,18})-", range_)
    if match is None or int(match[1]) >= size:
        raise HTTPException(416, f"ranges are bytes=N-, with N below {size}")
    return int(match[1])
