"""Let another person read a task, a workflow or a dataset on the page, and revoke that."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.federation.faults import BadDocument, Fault
from pilotage.model.records.grants import GrantKind, WorkGrant
from pilotage.model.rules.verbs import GRANT, REVOKE
from pilotage.model.values.durations import end_of
from pilotage.model.values.identity import IdentityName
from pilotage.model.values.phrases import moment
from pilotage.server.api.data.datasets import changeable
from pilotage.server.api.edge.access import governs, grounds_of
from pilotage.server.api.work.grants import GrantSubject, NewGrant, given, revoked
from pilotage.server.api.work.tasks import steerable_task
from pilotage.server.api.work.workflows import steerable_workflow
from pilotage.server.web.action_model import ActionField, ActionPreview, ActionSubject, PageAction, values
from pilotage.server.web.pages import Visit, command
from pilotage.store import TaskDetails

GROUP = "group:"

_READ: Mapping[GrantKind, str] = {
    "task": "its results, logs and explanations",
    "workflow": "results, logs and explanations of all its tasks",
    "dataset": "the files of all its versions",
    "group": "results, logs and explanations of all its tasks",
}


class DatasetQuery(BaseModel):
    """The dataset that a page is about: SCOPE:NAME, or a name alone."""

    dataset: Annotated[str, Field(min_length=1, max_length=1000)]


class ReaderForm(BaseModel):
    """Who may read: a person, or ``group:NAME``, and until when."""

    reader: Annotated[str, Field(min_length=1, max_length=206)]
    vo: IdentityName | None = None
    until: Annotated[str, Field(max_length=40)] = ""

    def subject(self, of: "_GrantedSubject") -> dict[str, object]:
        """Return the record of a grant, and its reader."""
        group = self.reader.removeprefix(GROUP) if self.reader.startswith(GROUP) else ""
        person = "" if group else self.reader
        return {"kind": of.kind, "record": of.record, "person": person, "group": group, "vo": self.vo}


@dataclass(frozen=True, slots=True, kw_only=True)
class _GrantedSubject(ActionSubject):
    """A record to read, and its grants in force. ``word`` is how commands call it."""

    kind: GrantKind
    record: str
    grants: Sequence[WorkGrant]

    @property
    def word(self) -> str:
        return self.record if self.kind == "task" else f"{self.kind}:{self.record}"

    @property
    def hidden(self) -> dict[str, str]:
        """Return the fields that a form of its page needs besides its address."""
        return {"dataset": self.record} if self.kind == "dataset" else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReader:
    """Who may read a record, in words, and the address that revokes it; empty: its group lets them."""

    text: str
    address: str


def readers(visit: Visit, task: TaskDetails) -> list[ShownReader]:
    """Return who may read a task besides its owner, for those who may revoke it."""
    if not governs(visit.caller, task.owner, task.vo):
        return []
    return shown(visit.store.grants.of(*grounds_of(task.id, task.workflow)))


def shown(grants: Sequence[WorkGrant]) -> list[ShownReader]:
    """Return who may read by grants."""
    return [ShownReader(text=_text(grant), address=_address(grant)) for grant in grants]


def _text(grant: WorkGrant) -> str:
    name = f"{grant.reader} of {grant.vo}" if grant.vo else grant.reader
    name += ", who may change it too" if grant.manages else ""
    name += f" as {grant.record.partition(':')[2]} lets them" if grant.kind == "group" else ""
    return name + ("" if grant.until is None else f" until {moment(grant.until)}")


def _address(grant: WorkGrant) -> str:
    if grant.kind == "group":
        return ""
    reader = {"reader": grant.reader, "vo": grant.vo}
    if grant.kind == "dataset":
        return f"/dataset/revoke?{urlencode({'dataset': grant.record, **reader})}"
    return f"/{grant.kind}s/{grant.record}/revoke?{urlencode(reader)}"


def _of_task(visit: Visit) -> _GrantedSubject:
    task = steerable_task(visit.store, visit.caller, visit.number("task"))
    return _subject(visit, "task", task.id, task.name)


def _of_workflow(visit: Visit) -> _GrantedSubject:
    workflow = steerable_workflow(visit.store, visit.caller, visit.number("workflow"))
    return _subject(visit, "workflow", workflow.id, workflow.name)


def _of_dataset(visit: Visit) -> _GrantedSubject:
    name = changeable(visit.caller, values(visit, DatasetQuery).dataset)
    if visit.store.datasets.version(name) is None:
        raise HTTPException(404, f"the catalogue has no dataset {name}")
    address = urlencode({"dataset": name})
    return _GrantedSubject(
        name=f"dataset {name}",
        path=f"/dataset?{address}",
        section="Datasets",
        json=f"/datasets/versions?{address}",
        kind="dataset",
        record=name,
        grants=visit.store.grants.of(("dataset", name)),
    )


def _subject(visit: Visit, kind: GrantKind, number: int, name: str) -> _GrantedSubject:
    return _GrantedSubject(
        name=f"{kind} {number} {name}",
        path=f"/{kind}s/{number}",
        section=f"{kind.capitalize()}s",
        json="/grants",
        kind=kind,
        record=str(number),
        grants=visit.store.grants.of((kind, str(number))),
    )


def _granting(visit: Visit, of: _GrantedSubject, _: str) -> ActionPreview:
    reader, until = (visit.form.get(name, "") for name in ("reader", "until"))
    asked = (
        ActionField(
            name="reader",
            label="Who may read it: a person, or group:NAME",
            value=reader[:206],
            hint="bob",
            most=206,
            is_required=True,
        ),
        ActionField(
            name="until",
            label="Until, in UTC; empty: until you revoke it",
            value=until[:40],
            hint="2h, 30d, or 2026-11-30T18:00",
            most=40,
        ),
    )
    return ActionPreview(
        says=[f"They read {_READ[of.kind]}, and change nothing."],
        lines=[f"now: {_text(grant)}" for grant in of.grants],
        asked=asked,
        hidden=of.hidden,
        command=command(GRANT.name, of.word, reader or "PERSON", until=until),
    )


def _grant(visit: Visit, of: _GrantedSubject) -> None:
    form = visit.sent(ReaderForm)
    try:
        until = end_of(form.until, visit.now, UTC) if form.until else None
    except ValueError as error:
        raise BadDocument([Fault(("until",), str(error))]) from error
    body = NewGrant.model_validate({**form.subject(of), "until": until})
    given(visit.store, visit.caller, body, visit.now)


def _revoking(visit: Visit, of: _GrantedSubject, _: str) -> ActionPreview:
    form = values(visit, ReaderForm)
    hidden = {**of.hidden, "reader": form.reader, **({"vo": form.vo} if form.vo else {})}
    says = [f"{form.reader} may not read it from then on."]
    return ActionPreview(
        says=says, hidden=hidden, command=command(REVOKE.name, of.word, form.reader, vo=form.vo)
    )


def _revoke(visit: Visit, of: _GrantedSubject) -> None:
    body = GrantSubject.model_validate(visit.sent(ReaderForm).subject(of))
    revoked(visit.store, visit.caller, body, visit.now)


def _routes() -> Iterator[Route]:
    finders: tuple[tuple[str, Callable[[Visit], _GrantedSubject]], ...] = (
        ("/tasks/{task:number}", _of_task),
        ("/workflows/{workflow:number}", _of_workflow),
        ("/dataset", _of_dataset),
    )
    for path, find in finders:
        yield from PageAction(verb=GRANT, find=find, show=_granting, do=_grant).routes(f"{path}/grant")
        yield from PageAction(verb=REVOKE, find=find, show=_revoking, do=_revoke).routes(f"{path}/revoke")


ROUTES: Sequence[Route] = tuple(_routes())
