"""Quotas: what limits the caller's work, and limits of single people, groups and VOs."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.administration import quotas
from pilotage.flow.calls.administration.quotas import UsedQuota
from pilotage.flow.runtime import Runtime
from pilotage.model.records.quotas import HolderKind, QuotaException
from pilotage.model.values.identity import Credential, Identity, IdentityName
from pilotage.model.values.types import NonNegative, Number
from pilotage.server.api.edge.access import Manager, Person, actor, sight_of
from pilotage.server.api.edge.answers import answer, documented, field_refused
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import LINE, PREFIX, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=f"{PREFIX}/quotas", tags=["federation"], route_class=MeasuredRoute)


class QuotaList(BaseModel):
    """Quotas. The list comes whole: at most 1000 people, groups and VOs have limits."""

    of_caller: Annotated[list[UsedQuota], Field(description="What limits the caller's work.")]
    exceptions: Annotated[
        list[QuotaException],
        Field(description="Limits of single people, groups and VOs that the caller sees."),
    ]


Because = Annotated[str, Field(min_length=1, max_length=500, pattern=LINE, description="Why.")]


class Holder(RequestBody):
    """The person, group or VO, and why its limits change."""

    kind: HolderKind
    name: Annotated[IdentityName, Field(description="Of the person or group; empty: a VO.")] = ""
    vo: Annotated[IdentityName | None, Field(description="null: the caller's.")] = None
    because: Because


class WantedQuota(Holder):
    """Limits of a person, group or VO in place of the general ones. null: the general one holds."""

    tasks: Number | None = None
    jobs: Number | None = None
    files: Number | None = None
    stored: Annotated[Number | None, Field(description="MB of the store for a person's tasks")] = None
    uploaded: Annotated[NonNegative | None, Field(description="GB of uploaded files")] = None
    core_hours: Annotated[NonNegative | None, Field(description="core hours in a calendar month")] = None
    transferred: Annotated[
        NonNegative | None, Field(description="GB of inputs and outputs in a calendar month")
    ] = None


@router.get("", responses=documented(QuotaList, 409))
def get_quotas(caller: Person, runtime: TheRuntime) -> Response:
    """What limits the caller's work, with what is used, and limits of single people, groups and VOs.

    Users see their own, their group's and their VO's, a manager those of the VO.
    """
    return answer(quota_list(runtime, caller))


def quota_list(runtime: Runtime, caller: Credential) -> QuotaList:
    """Return what ``get_quotas`` answers."""
    seen = [
        exception for exception in runtime.store.federation().quotas.exceptions if _is_seen(caller, exception)
    ]
    return QuotaList(of_caller=[*quotas.of_person(runtime, caller.identity)], exceptions=seen)


def _is_seen(caller: Credential, exception: QuotaException) -> bool:
    owners = sight_of(caller)
    if isinstance(owners, Identity):
        return exception.holds_for(owners)
    return owners is None or exception.vo == owners.vo


@router.put("", responses=documented(QuotaException, 404, 409))
def put_quota(body: WantedQuota, caller: Manager, runtime: TheRuntime) -> Response:
    """Set limits of a person or group, or for operators of a VO, in place of earlier ones. They hold at once.

    A reload of the federation or a restart does not undo it.
    """
    return answer(put(runtime, caller, body))


def put(runtime: Runtime, caller: Credential, body: WantedQuota) -> QuotaException:
    """Set limits, and return them. Raises HTTPException."""
    limits = body.model_dump(exclude={"kind", "name", "vo", "because"}, exclude_none=True)
    exception = QuotaException(
        kind=body.kind,
        name=body.name,
        vo=_vo(caller, body),
        because=body.because,
        actor=actor(caller),
        since=runtime.clock(),
        **limits,
    )
    if not exception.constants() or len(exception.constants()) < len(limits):
        has = "has no limit" if not limits else f"has a limit that a {body.kind} cannot have"
        raise field_refused("", has)
    quotas.put(runtime, exception)
    return exception


@router.post("/lift", responses=documented(QuotaException, 404, 409))
def post_lift(body: Holder, caller: Manager, runtime: TheRuntime) -> Response:
    """End the limits of a person, group or VO: the general ones hold again."""
    return answer(lift(runtime, caller, body))


def lift(runtime: Runtime, caller: Credential, body: Holder) -> QuotaException:
    """End limits, and return them. Raises HTTPException and ``NotThere``."""
    return quotas.lift(runtime, (body.kind, _vo(caller, body), body.name), actor(caller), body.because)


def _vo(caller: Credential, body: Holder) -> str:
    """Return the VO of a holder. Raises a 403 for one that the caller may not limit."""
    vo = caller.identity.vo if body.vo is None else body.vo
    if (body.kind == "vo") == bool(body.name):
        raise field_refused("name", "is for a person or a group, which need one")
    if caller.role == "manager" and (vo != caller.identity.vo or body.kind == "vo"):
        raise HTTPException(403, f"you manage the people and groups of {caller.identity.vo}")
    return vo
