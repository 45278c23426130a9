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
    """The person, group, VO or share, and why its limits or its target change."""

    kind: HolderKind
    name: Annotated[IdentityName, Field(description="Of the person, group or share; empty: a VO.")] = ""
    vo: Annotated[IdentityName | None, Field(description="null: the caller's. A share has its own.")] = None
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
    target: Annotated[NonNegative | None, Field(description="the target of a share, and of nothing else")] = (
        None
    )


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
    if owners is None:
        return True
    if exception.kind == "share":
        return exception.vo in ("", owners.vo)
    return exception.holds_for(owners) if isinstance(owners, Identity) else exception.vo == owners.vo


@router.put("", responses=documented(QuotaException, 404, 409))
def put_quota(body: WantedQuota, caller: Manager, runtime: TheRuntime) -> Response:
    """Set limits of a person or group, or for operators of a VO, in place of earlier ones. They hold at once.

    Also the target of a share; a manager sets that of shares inside the share of their VO. A reload of the
    federation or a restart does not undo it.
    """
    return answer(put(runtime, caller, body))


def put(runtime: Runtime, caller: Credential, body: WantedQuota) -> QuotaException:
    """Set limits, and return them. Raises HTTPException."""
    limits = body.model_dump(exclude={"kind", "name", "vo", "because"}, exclude_none=True)
    exception = QuotaException(
        kind=body.kind,
        name=body.name,
        vo=_vo(runtime, caller, body),
        because=body.because,
        actor=actor(caller),
        since=runtime.clock(),
        **limits,
    )
    if not exception.is_fit:
        has = "has no limit" if not limits else f"has a limit that a {body.kind} cannot have"
        raise field_refused("", has)
    quotas.put(runtime, exception)
    return exception


@router.post("/lift", responses=documented(QuotaException, 404, 409))
def post_lift(body: Holder, caller: Manager, runtime: TheRuntime) -> Response:
    """End limits of a person, group or VO, or the target of a share: the general or declared ones hold."""
    return answer(lift(runtime, caller, body))


def lift(runtime: Runtime, caller: Credential, body: Holder) -> QuotaException:
    """End limits, and return them. Raises HTTPException and ``NotThere``."""
    key = body.kind, _vo(runtime, caller, body), body.name
    return quotas.lift(runtime, key, actor(caller), body.because)


def _vo(runtime: Runtime, caller: Credential, body: Holder) -> str:
    """Return the VO of a holder. Raises a 403 for one that the caller may not limit, and ``NotThere``."""
    vo, is_manager = caller.identity.vo, caller.role == "manager"
    if (body.kind == "vo") == bool(body.name):
        raise field_refused("name", "is for a person, a group or a share, which need one")
    if body.kind == "share":
        of_share, above = quotas.vos_of_share(runtime, body.name)
        # The share of a whole VO competes with other VOs.
        if is_manager and vo not in above:
            raise HTTPException(403, f"you manage the shares inside the share of {vo}")
        return of_share
    if is_manager and (body.vo not in (None, vo) or body.kind == "vo"):
        raise HTTPException(403, f"you manage the people and groups of {vo}")
    return vo if body.vo is None else body.vo
