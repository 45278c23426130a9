"""The use of jobs, and losses: the caller's, or everybody's for an operator."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from pilotage.model.values.durations import DAY
from pilotage.model.values.phrases import day
from pilotage.server.web.drawing import TrendStep
from pilotage.server.web.pages import Page, Staleness, Visit, command, view
from pilotage.server.web.views.shares import DaysQuery, DaysSpan, span_of
from pilotage.store import Use, UseBy, UseReport

ROWS = 100
"""Most rows of the page; the API and the command line have more."""

CHOICES: Sequence[UseBy] = ("day", "task", "queue")


class UseQuery(DaysQuery):
    """How many days back the page looks, and whether its rows are days, tasks or queues."""

    by: UseBy = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseModel:
    """The use, and the core time of each day as a line with its largest value."""

    usage: UseReport
    rows: Sequence[Use]
    span: DaysSpan
    choices: Sequence[UseBy]
    left_out: int
    steps: Sequence[TrendStep]
    peak: float


def use(visit: Visit) -> Page:
    """Show core hours by day, task or queue, and losses by cause."""
    query = visit.query(UseQuery)
    span = span_of(visit, query.days)
    usage = visit.store.past.usage(visit.owner, span.begin, query.by)
    seconds = {row.time: row.core_seconds for row in usage.rows} if query.by == "day" else {}
    peak = max(seconds.values(), default=0.0)
    times = [span.begin + DAY * at for at in range(query.days)] if len(seconds) > 1 else []
    return Page(
        template="use.html",
        title="Use",
        section="Use",
        model=UseModel(
            usage=usage,
            rows=usage.rows[:ROWS],
            span=span,
            choices=CHOICES,
            left_out=usage.left_out + max(len(usage.rows) - ROWS, 0),
            steps=[TrendStep(time, seconds.get(time, 0.0) / (peak or 1)) for time in times],
            peak=peak,
        ),
        json=f"/usage?by={query.by}&since={span.begin:.0f}",
        command=command("usage", by=query.by, since=day(span.begin)),
        stale=Staleness(kinds=("job",), seconds=15),
    )


ROUTES: Sequence[Route] = (view("/use", use),)
