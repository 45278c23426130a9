"""What makes no progress, why, and the command that mends it."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from starlette.routing import Route

from pilotage.flow.calls.work.stuck import StuckRecords, everything
from pilotage.server.web.pages import Page, Staleness, Visit, command, view

PAGES = ("task", "job", "transfer", "pilot", "queue", "storage")
"""Kinds of records that have a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckModel:
    """Stuck records, the worst first, each with the address of the first one; empty: it has none."""

    rows: Sequence[tuple[StuckRecords, str]]


def stuck(visit: Visit) -> Page:
    """Show stuck records, the worst first."""
    visit.for_operators("see what is stuck")
    return Page(
        template="stuck.html",
        title="Stuck",
        section="Now",
        model=StuckModel(rows=[(records, _address(records)) for records in everything(visit.runtime)]),
        json="/stuck",
        command=command("stuck"),
        stale=Staleness(seconds=15),
    )


def _address(records: StuckRecords) -> str:
    kind, _, name = records.remark.subject.partition(":")
    return f"/{kind}s/{quote(name)}" if kind in PAGES else ""


ROUTES: Sequence[Route] = (view("/stuck", stuck),)
