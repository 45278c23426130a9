"""The use of jobs, and losses: the caller's, or everybody's for an operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.routing import Route

from pilotage.model.records.use import LOSSES, UseBy
from pilotage.model.values.durations import DAY
from pilotage.model.values.phrases import day
from pilotage.server.web.drawing import TrendStep
from pilotage.server.web.pages import Page, Staleness, Visit, command, view
from pilotage.server.web.views.shares import DaysQuery, DaysSpan, span_of
from pilotage.store import Use, UseQuery, UseReport

ROWS = 100
"""Most rows of the page; the API and the command line have more."""

CHOICES: Sequence[UseBy] = ("day", "task", "queue", "site", "group", "share", "cause")
OF_OPERATORS: Sequence[UseBy] = ("person", "vo")
"""What more operators choose from: others have one of them."""


class RowsQuery(DaysQuery):
    """How many days back the page looks, and what its rows are of."""

    by: UseBy = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseModel:
    """The use, and the core time of each day as a line with its largest value, beside the lost part."""

    usage: UseReport
    by: UseBy
    rows: Sequence[Use]
    span: DaysSpan
    choices: Sequence[UseBy]
    causes: Mapping[str, str]
    left_out: int
    steps: Sequence[TrendStep]
    lost: Sequence[TrendStep]
    peak: float


def use(visit: Visit) -> Page:
    """Show core hours by one dimension, by day as a line, and losses by cause."""
    query = visit.query(RowsQuery)
    span = span_of(visit, query.days)
    asked = UseQuery(owner=visit.owner, since=span.begin, until=visit.now, by=(query.by,), most=ROWS)
    usage = visit.store.past.usage(asked)
    daily = usage if query.by == "day" else visit.store.past.usage(replace(asked, by=("day",)))
    days = {row.time: row for row in daily.rows}
    peak = max((row.core_seconds for row in daily.rows), default=0.0)
    times = [span.begin + DAY * at for at in range(query.days)] if len(days) > 1 else []

    def steps(part: str) -> list[TrendStep]:
        return [TrendStep(at, getattr(days.get(at), part, 0.0) / (peak or 1)) for at in times]

    return Page(
        template="use.html",
        title="Use",
        section="Use",
        model=UseModel(
            usage=usage,
            by=query.by,
            rows=usage.rows,
            span=span,
            choices=(*CHOICES, *(OF_OPERATORS if visit.sees_others else ())),
            causes=LOSSES,
            left_out=usage.left_out,
            steps=steps("core_seconds"),
            lost=steps("lost_seconds"),
            peak=peak,
        ),
        json=f"/usage?by={query.by}&since={span.begin:.0f}",
        command=command("usage", by=query.by, since=day(span.begin)),
        stale=Staleness(kinds=("job",), seconds=15),
    )


ROUTES: Sequence[Route] = (view("/use", use),)
