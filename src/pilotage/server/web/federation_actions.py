"""Load another federation, or go back to an earlier one: checked and compared first, then put in force."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field, field_validator

from pilotage.federation.documents import read
from pilotage.federation.faults import BadFile, FileFault, field_name
from pilotage.federation.source_files import SourceFile
from pilotage.flow.calls.administration import acceptance, federation_changes
from pilotage.flow.calls.administration.federation_changes import NEWEST, Review, WorkInTheWay
from pilotage.flow.errors import NotNow
from pilotage.model.records.federation import Federation
from pilotage.model.rules.verbs import ROLLBACK
from pilotage.server.api.edge.access import actor
from pilotage.server.web.action_model import ActionPreview, ActionSubject, PageAction, values
from pilotage.server.web.pages import Page, Redirect, Visit, action, command, view
from pilotage.store import FederationChanged, FederationRenamed, NoFederation

LOAD = "/admin/federation/load"
ROLLBACK_PAGE = "/admin/federation/rollback"
HISTORY = "/admin/history"
MOST_LINES = 200
"""Most lines of faults, changes or effects of a page."""


class LoadForm(BaseModel):
    """A document, the version that it is compared with, and whether it is put in force now.

    ``seen`` is the digest of the text that the person has seen compared.
    """

    text: Annotated[str, Field(max_length=15_000_000)] = ""
    note: Annotated[str, Field(max_length=500)] = ""
    seen: Annotated[str, Field(max_length=64)] = ""
    expected: Annotated[int, Field(ge=0, le=NEWEST)] = 0
    load: bool = False
    anyway: bool = False

    @field_validator("text")
    @classmethod
    def _as_a_file_has_it(cls, text: str) -> str:
        """Browsers send lines of forms with carriage returns."""
        return text.replace("\r\n", "\n").strip("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """A document, its faults, or its differences from the federation in force and what would follow."""

    form: LoadForm
    version: int
    refused: str = ""
    faults: Sequence[FileFault] = ()
    warnings: Sequence[str] = ()
    review: Review | None = None
    seen: str = ""
    more: int = 0


def _load_page(visit: Visit) -> Page:
    visit.for_operators("load federations")
    return _page_of(LoadModel(form=LoadForm(), version=_version(visit)))


def _version(visit: Visit) -> int:
    try:
        return visit.store.version()
    except NoFederation:
        return 0


def _page_of(model: LoadModel) -> Page:
    return Page(
        template="federation-load.html",
        title="Load a federation",
        section="Federation",
        model=model,
        json="/federation" if model.version else "",
        command=command("federation", "load", "FILE", "--dry-run"),
        status=422 if model.faults else 409 if model.refused else 200,
    )


def _load(visit: Visit) -> Page | Redirect:
    visit.for_operators("load federations")
    form = visit.sent(LoadForm)
    version = _version(visit)
    try:
        federation = read(Federation, SourceFile("document", form.text), acceptance.faults)
        review = federation_changes.review(visit.store, federation)
    except BadFile as bad:
        more = max(len(bad.faults) - MOST_LINES, 0)
        return _page_of(LoadModel(form=form, version=version, faults=bad.faults[:MOST_LINES], more=more))
    except FederationRenamed as error:
        return _page_of(LoadModel(form=form, version=version, refused=f"name: {error}"))
    digest = sha256(form.text.encode()).hexdigest()
    refused = ""
    if form.load and form.seen != digest:
        refused = "The document is not the one that you compared. Look at this comparison first."
    elif form.load:
        refused = _save(visit, federation, form)
        if not refused:
            return Redirect(address=f"{HISTORY}?{urlencode({'done': 'load'})}")
    warnings = acceptance.notes(federation)
    model = LoadModel(
        form=form,
        version=_version(visit),
        refused=refused,
        warnings=[f"{field_name(warning.path)}: {warning.text}" for warning in warnings[:MOST_LINES]],
        review=review,
        seen=digest,
        more=max(len(review.changes) - MOST_LINES, 0),
    )
    return _page_of(model)


def _save(visit: Visit, federation: Federation, form: LoadForm) -> str:
    """Put a federation in force; return why not, or nothing."""
    try:
        federation_changes.save(
            *(visit.store, federation, actor(visit.caller)),
            force=form.anyway,
            expected=form.expected,
            note=form.note.strip(),
        )
    except (FederationChanged, WorkInTheWay) as error:
        return str(error)
    visit.runtime.wakeups.wake_all()
    return ""


class RollbackQuery(BaseModel):
    """The version to go back to, the one that is left, and whether losses are accepted."""

    version: Annotated[int, Field(ge=1, le=NEWEST)]
    expected: Annotated[int, Field(ge=0, le=NEWEST)] = 0
    anyway: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version(ActionSubject):
    """An earlier federation."""

    number: int


def _version_of(visit: Visit) -> _Version:
    number = values(visit, RollbackQuery).version
    name = f"version {number} of the federation"
    return _Version(name=name, path=HISTORY, section="Federation", json="/federation/history", number=number)


def _going_back(visit: Visit, of: _Version, fault: str) -> ActionPreview:
    review = federation_changes.review(visit.store, federation_changes.of_version(visit.store, of.number))
    now = visit.store.version()
    changes = [change.text for change in review.changes]
    return ActionPreview(
        says=[
            f"What version {of.number} declared is in force again, as a new version after {now}.",
            "Drains and closures stay as they are.",
            *([] if changes else ["Nothing would change."]),
        ],
        lines=[*changes[:MOST_LINES], *(effect.text for effect in review.effects[:MOST_LINES])],
        faults=[] if fault else [f"It would lose: {loss.text}" for loss in review.losses[:20]],
        hidden={"version": str(of.number), "expected": str(now)},
        can=bool(changes) and not review.losses,
        may_insist=bool(review.losses),
        command=command("federation", "rollback", of.number, dry_run=True),
    )


def _go_back(visit: Visit, of: _Version) -> None:
    query = visit.sent(RollbackQuery)
    federation = federation_changes.of_version(visit.store, of.number)
    form = LoadForm(
        expected=query.expected, note=f"back to version {of.number}", anyway=query.anyway == "yes"
    )
    if refused := _save(visit, federation, form):
        raise NotNow(refused)


ROUTES = (
    view(LOAD, _load_page),
    action(LOAD, _load),
    *PageAction(verb=ROLLBACK, find=_version_of, show=_going_back, do=_go_back).routes(ROLLBACK_PAGE),
)
