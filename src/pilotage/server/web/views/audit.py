"""Who did what: the caller, and others to the caller's records; for an operator everybody."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.model.records.audit import AuditRecord
from pilotage.server.api.edge.access import sight_of
from pilotage.server.web.pages import Cursor, Page, Visit, command, view
from pilotage.store import AuditQuery

ROWS = 100
"""Records of a page."""

_Word = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]


class AuditFilter(BaseModel):
    """What a person looks for, and the record that the page begins after."""

    person: _Word = ""
    verb: _Word = ""
    record: _Word = ""
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditModel:
    """Records, newest first."""

    records: Sequence[AuditRecord]
    filter: AuditFilter
    is_filtered: bool
    next_page: str


def audit(visit: Visit) -> Page:
    """Show records of the audit."""
    query = visit.query(AuditFilter)
    words = query.model_dump(include={"person", "verb", "record"})
    records = visit.store.audit.page(
        AuditQuery(sight=sight_of(visit.caller), limit=ROWS, after=query.after, **words)
    )
    address = visit.address(done=None)
    return Page(
        template="audit.html",
        title="Audit",
        section="Audit",
        model=AuditModel(
            records=records, filter=query, is_filtered=any(words.values()), next_page=visit.next_page(records)
        ),
        json=address,
        command=command("audit", **words),
    )


ROUTES: Sequence[Route] = (view("/audit", audit),)
