"""Global shares: what runs of each next to its target, now and over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.model.values.durations import DAY, HOUR
from pilotage.server.api.administration.past import MOST_DAYS, ShareTrend, share_history
from pilotage.server.web.drawing import TrendStep
from pilotage.server.web.pages import OF_PLACES, Page, Visit, command, view
from pilotage.store import NoFederation, ShareUse, ShareView, share_uses, step_of

MOST_SHARES = 500
"""Most shares of a page, those with most running jobs."""


MOST_TRENDS = 12
"""Most shares whose use over time is drawn, those that used most."""


class DaysQuery(BaseModel):
    """How many days back a page looks."""

    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysSpan:
    """A span of days (s since 1970 UTC), and the numbers of days to choose from."""

    days: int
    begin: float
    end: float
    choices: Sequence[int] = (1, 7, MOST_DAYS)


def span_of(visit: Visit, days: int) -> DaysSpan:
    """Return the span of so many whole days; today is one."""
    tomorrow = (visit.now // DAY + 1) * DAY
    return DaysSpan(days=days, begin=tomorrow - days * DAY, end=tomorrow)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrend:
    """The use of a share over time, and its steps: of its use and of its target."""

    trend: ShareTrend
    used: Sequence[TrendStep]
    targets: Sequence[TrendStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendsModel:
    """What shares used over some days. A step has ``length`` s; ``more`` shares are not drawn."""

    span: DaysSpan
    drawn: Sequence[DrawnTrend]
    length: float
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesModel:
    """Shares of work, and shares of transfers alone."""

    trends: TrendsModel
    shares: Sequence[ShareUse]
    transfers: Sequence[ShareView]
    running: int


def shares(visit: Visit) -> Page:
    """Show what each share uses next to its target, and used."""
    days = visit.query(DaysQuery).days
    of_days = "days" in visit.request.query_params
    every = visit.store.queries.shares()
    all_uses = share_uses(every)
    model = SharesModel(
        trends=_trends(visit, days),
        shares=all_uses[:MOST_SHARES],
        transfers=[share for share in every if not share.target and share.transfers][:MOST_SHARES],
        running=sum(use.running for use in all_uses),
    )
    return Page(
        template="shares.html",
        title="Shares",
        section="Shares",
        model=model,
        json=f"/shares/history?days={days}" if of_days else "/shares",
        command=command("shares", days=days if of_days else None),
        stale=OF_PLACES,
    )


def _trends(visit: Visit, days: int) -> TrendsModel:
    trends = share_history(visit.runtime, days).shares
    return TrendsModel(
        span=DaysSpan(days=days, begin=visit.now - days * DAY, end=visit.now),
        drawn=[
            DrawnTrend(
                trend=trend,
                used=[TrendStep(span.time, span.used) for span in trend.spans],
                targets=[TrendStep(span.time, span.target) for span in trend.spans],
            )
            for trend in trends[:MOST_TRENDS]
        ],
        length=HOUR * step_of(days * DAY),
        more=max(len(trends) - MOST_TRENDS, 0),
    )


def uses(visit: Visit) -> list[ShareUse]:
    """Return the use of shares, if anything runs; nothing without a federation."""
    try:
        all_uses = share_uses(visit.store.queries.shares())
    except NoFederation:
        return []
    return all_uses if any(use.running for use in all_uses) else []


ROUTES: Sequence[Route] = (view("/shares", shares),)
