"""Datasets: those of a person's scopes and those that others let them read, and one with its versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.model.records.work import File
from pilotage.model.values.scopes import personal_scope, scopes_of, split_identifier
from pilotage.server.api.data.datasets import readable
from pilotage.server.web.grant_actions import DatasetQuery, ShownReader, shown
from pilotage.server.web.pages import Page, Visit, command, view
from pilotage.store import DatasetVersion

ROWS = 100
"""Most datasets, versions or files of a page; the API and the command line have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetsModel:
    """Current versions of the person's datasets, and the datasets of others that the person may read."""

    datasets: Sequence[DatasetVersion]
    more: int
    lent: Sequence[str]


def datasets(visit: Visit) -> Page:
    """Show the datasets of the caller's scopes, and those that others let the caller read."""
    scopes = sorted(scopes_of(visit.caller.identity))
    every = [row for scope in scopes for row in visit.store.datasets.current(scope, "", ROWS)]
    rows, total = every[:ROWS], sum(map(visit.store.datasets.total, scopes))
    lent = [
        grant.record
        for grant in visit.store.grants.page(visit.caller.identity, 10 * ROWS)
        if grant.kind == "dataset" and split_identifier(grant.record)[0] not in scopes
    ]
    return Page(
        template="datasets.html",
        title="Datasets",
        section="Datasets",
        model=DatasetsModel(
            datasets=rows[:ROWS], more=total - len(rows[:ROWS]), lent=list(dict.fromkeys(lent))
        ),
        json=f"/datasets?limit={ROWS}",
        command=command("files", "datasets"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetModel:
    """A dataset: its newest versions, some files of the current one, and who may read it."""

    current: DatasetVersion
    versions: Sequence[DatasetVersion]
    files: Sequence[File]
    readers: Sequence[ShownReader]
    can_share: bool
    share_address: str
    done: str


def dataset(visit: Visit) -> Page:
    """Show a dataset with its versions, its files and its readers."""
    name = readable(visit.caller, visit.store, visit.query(DatasetQuery).dataset)
    current = visit.store.datasets.version(name)
    if current is None:
        raise HTTPException(404, f"the catalogue has no dataset {name}")
    is_own = visit.is_operator or split_identifier(name)[0] == personal_scope(visit.caller.identity)
    address = urlencode({"dataset": name})
    return Page(
        template="dataset.html",
        title=name,
        section="Datasets",
        model=DatasetModel(
            current=current,
            versions=visit.store.datasets.versions(name, ROWS),
            files=visit.store.datasets.files(name, current.version, "", ROWS),
            readers=shown(visit.store.grants.of(("dataset", name))) if is_own else (),
            can_share=is_own,
            share_address=f"/dataset/grant?{address}",
            done=visit.done,
        ),
        json=f"/datasets/versions?{address}",
        command=command("files", "versions", name),
    )


ROUTES: Sequence[Route] = (view("/datasets", datasets), view("/dataset", dataset))
