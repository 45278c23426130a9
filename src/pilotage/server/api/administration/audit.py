"""The audit: what people and their tokens did. No request changes it."""

from dataclasses import replace
from math import inf
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from pilotage.model.records.audit import AuditRecord
from pilotage.model.values.types import LARGEST_ID
from pilotage.server.api.edge.access import FOR_OPERATORS, Person, sight_of
from pilotage.server.api.edge.answers import PageOfList, answer, documented, field_refused, listed
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, Text, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import AuditCheck, AuditQuery

router = APIRouter(prefix=f"{PREFIX}/audit", tags=["audit"], route_class=MeasuredRoute)

Moment = Annotated[float, Query(ge=0, le=1e11, description="s since 1970 UTC; 0: no bound")]


AfterRecord = Annotated[int, Query(ge=0, le=LARGEST_ID, description="the number after which to begin")]


class AuditRecords(PageOfList):
    """Records of the audit."""

    records: Annotated[list[AuditRecord], Field(description="Newest first, unless asked otherwise.")]


async def _query(
    person: Annotated[Text, Query(description="by this person; empty: by all that the caller sees")] = "",
    verb: Annotated[Text, Query(description="such as `cancel`; empty: all")] = "",
    record: Annotated[Text, Query(description="such as `task 12`; empty: all")] = "",
    since: Moment = 0,
    until: Moment = 0,
    oldest_first: Annotated[bool, Query(description="for exports that go on later")] = False,
    after: After = "",
    limit: Limit = 100,
) -> AuditQuery:
    if until and since > until:
        raise field_refused("since", "is after until")
    return AuditQuery(
        person=person,
        verb=verb,
        record=record,
        since=since,
        until=until or inf,
        after=after,
        limit=limit,
        oldest_first=oldest_first,
    )


@router.get("", responses=documented(AuditRecords))
def get_audit(caller: Person, runtime: TheRuntime, query: Annotated[AuditQuery, Depends(_query)]) -> Response:
    """What people and their tokens did: the caller, and others to records that the caller sees by their role.

    With ``oldest_first``, go on later after the number of the last record.
    """
    page = runtime.store.audit.page(replace(query, sight=sight_of(caller)))
    return listed("records", page)


@router.get("/check", dependencies=[FOR_OPERATORS], responses=documented(AuditCheck))
def get_audit_check(runtime: TheRuntime, after: AfterRecord = 0, limit: Limit = 10_000) -> Response:
    """Whether records of the audit were deleted or changed, part by part: ask on after ``next``.

    New records count 10 s later at most.
    """
    return answer(runtime.store.audit.verify(after, limit))
