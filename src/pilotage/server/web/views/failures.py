"""What failed by day, error and queue: the caller's jobs, or everybody's for an operator."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Route

from pilotage.model.values.durations import DAY
from pilotage.server.web.drawing import TrendStep
from pilotage.server.web.pages import Page, Staleness, Visit, command, view
from pilotage.server.web.views.shares import DaysQuery, DaysSpan, span_of
from pilotage.store import DailyFailures

ROWS = 200
"""Most rows of the page, which stays below 200 kB; the API and the command line have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresModel:
    """Failed attempts, all of each day as a line, and the largest number of a day."""

    failures: Sequence[DailyFailures]
    left_out: int
    """Attempts of further rows."""
    span: DaysSpan
    steps: Sequence[TrendStep]
    peak: int
    attempts: int


def failures(visit: Visit) -> Page:
    """Show what failed by day."""
    days = visit.query(DaysQuery).days
    span = span_of(visit, days)
    history = visit.store.past.failures(visit.owner, span.begin)
    counted, rows = dict(history.days), history.failures[:ROWS]
    peak = max(counted.values(), default=0)
    times = [span.begin + DAY * day for day in range(days)]
    return Page(
        template="failures.html",
        title="Failures",
        section="Now",
        model=FailuresModel(
            failures=rows,
            left_out=sum(counted.values()) - sum(failure.attempts for failure in rows),
            span=span,
            steps=[TrendStep(time, counted.get(time, 0) / (peak or 1)) for time in times],
            peak=peak,
            attempts=sum(counted.values()),
        ),
        json=f"/failures?days={days}",
        command=command("failures", days=days),
        stale=Staleness(kinds=("job",), seconds=15),
    )


ROUTES: Sequence[Route] = (view("/failures", failures),)
