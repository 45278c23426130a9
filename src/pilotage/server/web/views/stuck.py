"""What makes no progress for longer than is usual for its kind, and the command that mends it."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from pilotage.explain.stuck import what_of
from pilotage.server.api.work.stuck import StuckRecords, shown_stuck
from pilotage.server.web.commands import command
from pilotage.server.web.pages import Page, Staleness, Visit, view

PAGES = {"task": "/tasks/{}", "job": "/jobs/{}", "transfer": "/transfers/{}", "pilot": "/pilots/{}"}
"""Addresses of the records that have a page, by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckRow:
    """Stuck records of one place, in words, and the address of the oldest record; empty: it has none."""

    found: StuckRecords
    what: str
    oldest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckModel:
    """Stuck records, the worst first."""

    rows: Sequence[StuckRow]


def stuck(visit: Visit) -> Page:
    """Show stuck records, the worst first."""
    visit.for_operators("see what is stuck")
    return Page(
        template="stuck.html",
        title="Stuck",
        section="Now",
        model=StuckModel(rows=[*map(_row, shown_stuck(visit.runtime))]),
        json="/stuck",
        command=command("stuck"),
        stale=Staleness(seconds=15),
    )


def _row(one: StuckRecords) -> StuckRow:
    address = PAGES.get(one.kind, "").format(one.oldest)
    return StuckRow(found=one, what=what_of(one.kind, one.state, one.place, one.count), oldest=address)


ROUTES: Sequence[Route] = (view("/stuck", stuck),)
