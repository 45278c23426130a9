"""What the last days were like: shares, failures, use, kept worlds, and the caller's last simulation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import inf
from operator import attrgetter
from statistics import fmean
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.administration.people import last_simulation
from pilotage.flow.outside.kept_worlds import KeptWorldView
from pilotage.flow.runtime import Runtime
from pilotage.model.records.use import DIMENSIONS, UseBy
from pilotage.model.values.durations import DAY
from pilotage.model.values.types import DESCRIBED
from pilotage.server.api.edge.access import FOR_OPERATORS, FOR_PEOPLE, Operator, Person, owner_seen
from pilotage.server.api.edge.answers import answer, documented, field_refused
from pilotage.server.api.edge.dependencies import PREFIX, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import (
    MOST_ROWS,
    AttemptPage,
    FailureHistory,
    ShareSpan,
    UseQuery,
    UseReport,
)

router = APIRouter(prefix=PREFIX, tags=["health"], route_class=MeasuredRoute)

MOST_DAYS = 30
USUAL_DAYS = 7
MOST_ATTEMPTS = 1000

_BY = rf"^({'|'.join(DIMENSIONS)})(,({'|'.join(DIMENSIONS)})){{0,20}}$"

Days = Annotated[int, Query(ge=1, le=MOST_DAYS, description="how many days back")]


class LastSimulation(BaseModel):
    """A simulation that runs, or has ended. Times in s since 1970 UTC."""

    begun: Annotated[float, Field(description="When it began.")]
    ended: Annotated[float | None, Field(description="When it ended; null: it runs.")]
    policies: Annotated[Sequence[str], Field(description="The policies that it compares.")]
    text: Annotated[str, Field(description="Its table; empty: it runs, or failed before.")]
    fault: Annotated[str, Field(description="Why it failed; empty: it did not.")]
    pictures: Annotated[Sequence[str], Field(description="Its pictures as SVG: ratios, then each run.")]


class KeptWorldList(BaseModel):
    """The worlds that this server kept."""

    worlds: Annotated[list[KeptWorldView], Field(description="Oldest first. Another server keeps its own.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTrend:
    """The use of a share over time: its means, and each span with them."""

    __pydantic_config__ = DESCRIBED

    share: str
    """The share."""
    running: float
    """Its running jobs, in the mean."""
    used: float
    """These as a part of all running jobs, in the mean."""
    target: float
    """Its latest part of all targets."""
    spans: Sequence[ShareSpan]
    """Means of each hour in which anything ran, or of six hours for more than a week; oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHistory:
    """Shares by use, most first."""

    __pydantic_config__ = DESCRIBED

    shares: Sequence[ShareTrend]
    """Shares that had a target or running jobs."""


@router.get("/shares/history", dependencies=[FOR_PEOPLE], responses=documented(ShareHistory))
def get_share_history(runtime: TheRuntime, days: Days = 7) -> Response:
    """What each share used of the running jobs over time, next to its target.

    A server takes a sample every five minutes, and keeps a month of them.
    """
    return answer(share_history(runtime, days))


def share_history(runtime: Runtime, days: int) -> ShareHistory:
    """Return what each share used over so many days."""
    now = runtime.clock()
    spans = runtime.store.past.shares(now - days * DAY, now)
    trends = [_trend(name, list(group)) for name, group in groupby(spans, key=attrgetter("share"))]
    return ShareHistory(shares=sorted(trends, key=lambda trend: (-trend.used, -trend.target, trend.share)))


def _trend(share: str, spans: Sequence[ShareSpan]) -> ShareTrend:
    return ShareTrend(
        share=share,
        running=fmean(span.running for span in spans),
        used=fmean(span.used for span in spans),
        target=spans[-1].target,
        spans=spans,
    )


@router.get("/failures", responses=documented(FailureHistory))
def get_failures(caller: Person, runtime: TheRuntime, days: Days = 7) -> Response:
    """Failed attempts of the caller's jobs, or for an operator of all jobs, by day, error and queue.

    Attempts that were tried again count too, each after 10 s at most. Days are in UTC.
    """
    after = runtime.clock() - (days - 1) * DAY
    return answer(runtime.store.past.failures(owner_seen(caller), after))


@router.get("/usage", responses=documented(UseReport))
def get_usage(
    caller: Person,
    runtime: TheRuntime,
    by: Annotated[str, Query(pattern=_BY, description="what the rows are of, with commas")] = "day",
    since: Annotated[float, Query(ge=0, le=1e11, description="s since 1970 UTC; 0: 7 days ago")] = 0,
    until: Annotated[float, Query(ge=0, le=1e11, description="s since 1970 UTC; 0: today")] = 0,
    mine: Annotated[bool, Query(description="only the caller's own, also for an operator")] = False,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="most rows")] = 500,
) -> Response:
    """What attempts of the caller's jobs, or for an operator of all jobs, used, and what is lost.

    An attempt counts on the day when it ended, in UTC, 10 s later at most. Both days count whole. Days are
    kept for 400 days, by task for a month. Time in which pilots had no attempt does not count.
    """
    now = runtime.clock()
    since, until = since or now - USUAL_DAYS * DAY, until or now
    if since > until:
        raise field_refused("since", "is after until")
    owner = caller.identity if mine else owner_seen(caller)
    query = UseQuery(owner=owner, since=since, until=until, by=dimensions(by), most=limit)
    return answer(runtime.store.past.usage(query))


@router.get("/attempts", dependencies=[FOR_OPERATORS], responses=documented(AttemptPage))
def get_attempts(
    runtime: TheRuntime,
    after: Annotated[int, Query(ge=0, lt=2**63, description="the number after which to begin")] = 0,
    since: Annotated[float, Query(ge=0, le=1e11, description="s since 1970 UTC")] = 0,
    until: Annotated[float, Query(ge=0, le=1e11, description="s since 1970 UTC; 0: now")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_ATTEMPTS, description="most attempts")] = 1000,
) -> Response:
    """Attempts that ended, in an order that stays, for accounting elsewhere.

    A page has no attempt of an earlier one. Attempts appear after 10 s at most, and are kept for 30 days.
    """
    if until and since > until:
        raise field_refused("since", "is after until")
    return answer(runtime.store.past.attempts(after, limit, since, until or inf))


def dimensions(by: str) -> tuple[UseBy, ...]:
    """Return the dimensions in a list with commas, each once."""
    return tuple(dimension for dimension in DIMENSIONS if dimension in by.split(","))


@router.get("/worlds", dependencies=[FOR_OPERATORS], responses=documented(KeptWorldList))
def get_worlds(runtime: TheRuntime) -> Response:
    """The worlds of decisions that this server kept: `pilotage replay` decides from one again there."""
    return answer({"worlds": runtime.kept_worlds.listed()})


@router.get("/simulation", responses=documented(LastSimulation, 404))
def get_simulation(caller: Operator, runtime: TheRuntime) -> Response:
    """The last simulation that you started on the page, within a day."""
    simulation = last_simulation(runtime.store, caller.identity.key, runtime.clock())
    if simulation is None:
        raise HTTPException(404, "you started no simulation within a day")
    return answer(LastSimulation(begun=simulation.begun, ended=simulation.ended, **asdict(simulation.result)))
