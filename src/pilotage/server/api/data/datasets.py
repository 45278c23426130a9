"""Datasets of the catalogue: their versions, and the files of each."""

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.data import datasets
from pilotage.flow.outside.own_catalogue import Edit
from pilotage.model.values.identity import Credential
from pilotage.model.values.scopes import default_scope, identifier, scopes_of, split_identifier
from pilotage.model.values.types import DatasetName, FileName, Scope
from pilotage.ports.catalogue import MOST_FOUND
from pilotage.server.api.data.readable_scopes import check_readable, check_scope
from pilotage.server.api.edge.access import Person, actor
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import ListPage, Store, cut, note_act, numbered
from pilotage.store.files.datasets import DatasetVersion

router = APIRouter(prefix=f"{PREFIX}/datasets", tags=["files"], route_class=MeasuredRoute)

DatasetId = Annotated[str, Query(min_length=1, max_length=1000, description="SCOPE:NAME, or a name alone")]
VersionNumber = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="none: the current one")]


class Versions(PageOfList):
    """Versions of datasets."""

    versions: list[DatasetVersion]


class DatasetFile(BaseModel):
    """A file at the time when a version of a dataset was made."""

    file: str
    size: int
    checksum: str


class DatasetFiles(PageOfList):
    """A version of a dataset, and files of it by identifier."""

    version: DatasetVersion
    files: list[DatasetFile]


class DatasetEdit(RequestBody):
    """Files of a dataset's scope: all of its next version, additional ones, or removed ones."""

    dataset: DatasetName
    scope: Scope = ""
    edit: Edit = "set"
    files: list[FileName] = Field(default=[], max_length=MOST_FOUND)
    match: Annotated[str, Field(max_length=500)] = ""


class ForgottenDataset(RequestBody):
    """A dataset to forget: SCOPE:NAME, or a name alone.

    With ``dry_run`` the answer only shows what would go.
    """

    dataset: Annotated[str, Field(min_length=1, max_length=1000, description="SCOPE:NAME, or a name alone")]
    dry_run: bool = False


@router.get("", responses=documented(Versions))
def get_datasets(
    caller: Person, store: TheStore, scope: str = "", after: After = "", limit: Limit = 100
) -> Response:
    """List datasets of a scope with their current versions.

    Without a scope, list datasets of all the caller's scopes.
    """
    scopes = [scope] if scope else sorted(scopes_of(caller.identity))
    versions: list[DatasetVersion] = []
    for scope_name in scopes:
        check_readable(caller, scope_name)
        if room := limit + 1 - len(versions):
            versions += store.datasets.current(scope_name, after, room)
    rows, following = cut(versions, limit, attrgetter("dataset"))
    return listed("versions", ListPage(rows, sum(map(store.datasets.total, scopes)), {}, following))


@router.get("/versions", responses=documented(Versions, 404))
def get_versions(
    dataset: DatasetId, caller: Person, store: TheStore, after: After = "", limit: Limit = 100
) -> Response:
    """List the versions of a dataset, the newest first."""
    name = readable(caller, store, dataset)
    current = store.datasets.version(name)
    if current is None:
        raise HTTPException(404, f"the catalogue has no dataset {name}")
    versions = store.datasets.versions(name, limit + 1, numbered(after, 2**31 - 1) if after else None)
    rows, following = cut(versions, limit, attrgetter("version"))
    return listed("versions", ListPage(rows, current.version, {}, following))


@router.get("/files", responses=documented(DatasetFiles, 404))
def get_dataset_files(
    *,
    dataset: DatasetId,
    caller: Person,
    runtime: TheRuntime,
    version: VersionNumber = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """List the files of one version by identifier, as they were when it was made."""
    try:
        dataset_version = runtime.catalogues.own.version(readable(caller, runtime.store, dataset), version)
    except LookupError as error:
        raise HTTPException(404, str(error)) from error
    read = runtime.store.datasets.files(dataset_version.dataset, dataset_version.version, after, limit + 1)
    files, following = cut(read, limit, attrgetter("name"))
    rows = [{"file": file.name, "size": file.size, "checksum": file.checksum} for file in files]
    return listed(
        "files", ListPage(files, dataset_version.files, {}, following), rows, version=dataset_version
    )


@router.post("", responses=documented(DatasetVersion, 404, 409))
def post_dataset(body: DatasetEdit, caller: Person, runtime: TheRuntime) -> Response:
    """Make the next version of a dataset. If nothing would differ, the answer is the current one.

    Versions never change and never go: a task that names one always reads the same files.
    """
    scope = body.scope or default_scope(caller.identity, body.dataset)
    check_scope(caller, scope)
    dataset = identifier(scope, body.dataset)
    note_act(record=f"dataset {dataset}")
    try:
        return answer(datasets.edit(runtime, dataset, body.files, body.match, body.edit, actor(caller)))
    except LookupError as error:
        raise HTTPException(404, str(error)) from error


@router.post("/forget", status_code=204, responses=documented(DatasetVersion, 404, 409))
def post_forgotten_dataset(body: ForgottenDataset, caller: Person, runtime: TheRuntime) -> Response:
    """Forget a dataset with all its versions, unless a live task names one. Its files stay as they are.

    With `dry_run` nothing is done, and the answer is its newest version.
    """
    try:
        if body.dry_run:
            return answer(runtime.catalogues.own.forgettable(changeable(caller, body.dataset)))
        runtime.catalogues.own.forget(changeable(caller, body.dataset), actor(caller))
    except LookupError as error:
        raise HTTPException(404, str(error)) from error
    return Response(status_code=204)


def _identified(caller: Credential, dataset: str) -> str:
    scope, name = split_identifier(dataset)
    return identifier(scope or default_scope(caller.identity, name), name)


def readable(caller: Credential, store: Store, dataset: str) -> str:
    """Return the identifier of a dataset that the caller may read: in their scopes, or by a grant."""
    name = _identified(caller, dataset)
    if not store.grants.covers(caller.identity, ("dataset", name)):
        check_readable(caller, split_identifier(name)[0])
    return name


def changeable(caller: Credential, dataset: str) -> str:
    """Return the identifier of a dataset in a scope of the caller's."""
    name = _identified(caller, dataset)
    check_scope(caller, split_identifier(name)[0])
    return name
