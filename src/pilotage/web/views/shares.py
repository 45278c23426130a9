"""Global shares: what runs of each next to its target."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from pilotage.model.records.states import AT_A_PILOT
from pilotage.store import NoFederation, ShareView
from pilotage.web.commands import command
from pilotage.web.pages import Page, Visit, view

MOST_SHARES = 500
"""Most shares of a page, those with most running jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUse:
    """A share's running jobs as a fraction of all, next to its target as a fraction of all targets."""

    share: ShareView
    running: int
    used: float
    target: float

    @property
    def name(self) -> str:
        """Return the share's name."""
        return self.share.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesModel:
    """Shares of work, and those of transfers alone."""

    shares: Sequence[ShareUse]
    transfers: Sequence[ShareView]
    running: int


def shares(visit: Visit) -> Page:
    """Show what each share uses next to its target."""
    every = visit.store.queries.shares()
    found = _uses(every)
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
        refresh=10,
    )


def uses(visit: Visit) -> list[ShareUse]:
    """Return the use of shares, if anything runs; nothing without a federation."""
    try:
        found = _uses(visit.store.queries.shares())
    except NoFederation:
        return []
    return found if any(one.running for one in found) else []


def _uses(every: Sequence[ShareView]) -> list[ShareUse]:
    """Return shares that have a target or jobs, by what runs of them."""
    running = {one.name: sum(one.jobs.get(state, 0) for state in AT_A_PILOT) for one in every}
    whole = sum(running.values()) or 1
    targets = sum(one.target for one in every) or 1.0
    found = [
        ShareUse(
            share=one, running=running[one.name], used=running[one.name] / whole, target=one.target / targets
        )
        for one in every
        if one.target or one.jobs
    ]
    return sorted(found, key=lambda one: (-one.running, -one.target, one.name))


ROUTES: Sequence[Route] = (view("/shares", shares),)
