"""Global shares: what runs of each next to its target."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from pilotage.store import NoFederation, ShareUse, ShareView, share_uses
from pilotage.web.commands import command
from pilotage.web.pages import OF_PLACES, Page, Visit, view

MOST_SHARES = 500
"""Most shares of a page, those with most running jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesModel:
    """Shares of work, and those of transfers alone."""

    shares: Sequence[ShareUse]
    transfers: Sequence[ShareView]
    running: int


def shares(visit: Visit) -> Page:
    """Show what each share uses next to its target."""
    every = visit.store.queries.shares()
    found = share_uses(every)
    model = SharesModel(
        shares=found[:MOST_SHARES],
        transfers=[one for one in every if not one.target and one.transfers][:MOST_SHARES],
        running=sum(one.running for one in found),
    )
    return Page(
        template="shares.html",
        title="Shares",
        section="Shares",
        model=model,
        json="/shares",
        command=command("shares"),
        stale=OF_PLACES,
    )


def uses(visit: Visit) -> list[ShareUse]:
    """Return the use of shares, if anything runs; nothing without a federation."""
    try:
        found = share_uses(visit.store.queries.shares())
    except NoFederation:
        return []
    return found if any(one.running for one in found) else []


ROUTES: Sequence[Route] = (view("/shares", shares),)
