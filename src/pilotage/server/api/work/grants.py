"""Let others read or change tasks and workflows, or read datasets: give, list and revoke grants."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Response
from pydantic import Field, model_validator

from pilotage.flow.errors import NotNow
from pilotage.model.records.grants import GrantKind, WorkGrant
from pilotage.model.values.identity import LONGEST_NAME, UNFIT, Credential, IdentityName, is_fit
from pilotage.model.values.scopes import identifier, personal_scope, split_identifier
from pilotage.model.values.types import FINITE
from pilotage.server.api.data.datasets import changeable
from pilotage.server.api.edge.access import Person, governs, owner_seen
from pilotage.server.api.edge.answers import PageOfList, answer, documented, field_refused, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.tasks import steerable_task
from pilotage.server.api.work.workflows import steerable_workflow
from pilotage.store import Store, TaskDetails
from pilotage.store.people.grants import MOST_OF_PERSON
from pilotage.store.tasks.workflows import WorkflowView

router = APIRouter(prefix=f"{PREFIX}/grants", tags=["grants"], route_class=MeasuredRoute)


class GrantSubject(RequestBody):
    """A record to read, and its reader: a person, or a group. Without a ``vo``, of the caller's VO."""

    kind: GrantKind
    record: Annotated[
        str, Field(min_length=1, max_length=1000, description="a number, SCOPE:NAME, or a group's name")
    ]
    person: IdentityName = ""
    group: IdentityName = ""
    vo: IdentityName | None = None

    @model_validator(mode="after")
    def _is_one(self) -> "GrantSubject":
        if bool(self.person) == bool(self.group):
            raise ValueError("give a person or a group, and not both")
        return self


class NewGrant(GrantSubject):
    """A grant, until a moment or until it is revoked. With ``manages``, the reader may change it too."""

    manages: bool = False

    until: Annotated[
        Annotated[float, Field(ge=0, le=1e11), FINITE] | None,
        Field(description="s since 1970 UTC; null: until it is revoked"),
    ] = None


class GrantList(PageOfList):
    """Grants in force."""

    grants: list[WorkGrant]


@router.get("", responses=documented(GrantList))
def get_grants(caller: Person, store: TheStore, after: After = "", limit: Limit = 1000) -> Response:
    """The grants that the caller gave or may read by; for an operator everybody's."""
    return listed("grants", store.grants.page(owner_seen(caller), limit, after))


@router.post("", responses=documented(WorkGrant, 404, 409))
def post_grant(body: NewGrant, caller: Person, runtime: TheRuntime) -> Response:
    """Let a person or a group read a task, a workflow or a dataset of the caller's: results, logs, and why.

    With ``manages`` they also change it. A grant of a group is one of all tasks and workflows that are
    submitted in it: the manager of its VO gives it, or an operator. A second grant to the same reader takes
    the place of the first.
    """
    if body.until is not None and body.until <= runtime.clock():
        raise field_refused("until", "is over already")
    if body.manages and body.kind == "dataset":
        raise field_refused("manages", "is for tasks, workflows and groups")
    return answer(given(runtime.store, caller, body, runtime.clock()))


@router.post("/revoke", responses=documented(WorkGrant, 404))
def post_revocation(body: GrantSubject, caller: Person, runtime: TheRuntime) -> Response:
    """End a grant."""
    return answer(revoked(runtime.store, caller, body, runtime.clock()))


def given(store: Store, caller: Credential, body: NewGrant, now: float) -> WorkGrant:
    """Give a grant. Raises HTTPException for other people's records, and ``NotNow`` beyond the bound."""
    grant = _grant(store, caller, body, now, body.until, manages=body.manages)
    if not store.grants.put(grant):
        raise NotNow(f"you have given {MOST_OF_PERSON} grants, the most; revoke some: pilotage grants")
    return grant


def revoked(store: Store, caller: Credential, body: GrantSubject, now: float) -> WorkGrant:
    """End a grant, and return it. 404 if there is none."""
    grant = _grant(store, caller, body, now)
    if not store.grants.revoke(grant):
        raise HTTPException(
            404, f"{grant.reader} has no grant of {grant.kind} {grant.record}; pilotage grants"
        )
    return grant


def _grant(
    store: Store,
    caller: Credential,
    body: GrantSubject,
    now: float,
    until: float | None = None,
    *,
    manages: bool = False,
) -> WorkGrant:
    vo = caller.identity.vo if body.vo is None else body.vo
    return WorkGrant(
        kind=body.kind,
        record=_of_group(caller, body.record, vo)
        if body.kind == "group"
        else _owned(store, caller, body.kind, body.record),
        person=body.person,
        group=body.group,
        vo=vo,
        by=caller.identity.name,
        by_vo=caller.identity.vo,
        made=now,
        until=until,
        manages=manages,
    )


def _owned(store: Store, caller: Credential, kind: GrantKind, record: str) -> str:
    """Return the record as grants name it. Raises HTTPException for one that is not the caller's to grant."""
    if kind == "dataset":
        scope, plain = split_identifier(record)
        name = changeable(caller, identifier(scope or personal_scope(caller.identity), plain))
        # Every member of a VO reads its datasets, so no single one may give them away.
        is_own = split_identifier(name)[0] == personal_scope(caller.identity)
        if caller.role not in ("operator", "manager") and not is_own:
            raise HTTPException(403, f"{name} is of your VO; its manager or an operator may grant it")
        if store.datasets.version(name) is None:
            raise HTTPException(404, f"the catalogue has no dataset {name}")
        return name
    if not record.isdecimal() or len(record) > 18:
        raise field_refused("record", f"must be the number of a {kind}")
    number = int(record)
    of: TaskDetails | WorkflowView
    if kind == "task":
        of = steerable_task(store, caller, number)
    else:
        of = steerable_workflow(store, caller, number)
    if not governs(caller, of.owner, of.vo):
        raise HTTPException(403, f"{kind} {number} is one of {of.owner}, which you may not grant")
    return str(number)


def _of_group(caller: Credential, group: str, vo: str) -> str:
    """Return a group as grants name it. Raises HTTPException unless the caller may grant its work."""
    is_manager = caller.role == "manager" and caller.identity.vo == vo
    if not (is_manager or caller.role == "operator"):
        raise HTTPException(403, f"only the manager of the VO of {group}, or an operator, may grant its work")
    if len(group) > LONGEST_NAME or not is_fit(group):
        raise field_refused("record", UNFIT)
    return f"{vo}:{group}"
