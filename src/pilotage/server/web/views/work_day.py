"""Jobs that ran and finished over the last day: two lines, and a table by hour with the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from pilotage.model.values.durations import DAY, HOUR
from pilotage.server.web.drawing import TrendStep
from pilotage.server.web.pages import Visit
from pilotage.store import WorkOf, WorkQuarter


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkHour:
    """An hour from ``time`` on (s since 1970 UTC): its mean of running jobs, and the finished ones."""

    time: float
    running: float
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDay:
    """The last day. The lines are parts of their largest values; they are empty if nothing ran."""

    begin: float
    end: float
    is_recorded: bool
    """Whether the server has recorded anything of it."""
    running: Sequence[TrendStep]
    done: Sequence[TrendStep]
    most_running: float
    most_done: float
    finished: float
    hours: Sequence[WorkHour]


def work_day(visit: Visit, kind: WorkOf, name: str = "") -> WorkDay:
    """Return the last day of all work, or that of a site, a VO, a person or a task."""
    begin = visit.now - DAY
    quarters = visit.store.past.work(kind, name, begin)
    most_running = max((quarter.running for quarter in quarters), default=0.0)
    most_done = max((quarter.done for quarter in quarters), default=0.0)
    is_idle = not (most_running or most_done)
    return WorkDay(
        begin=begin,
        end=visit.now,
        is_recorded=bool(quarters),
        running=[] if is_idle else _line([(q.time, q.running) for q in quarters], most_running),
        done=[] if is_idle else _line([(q.time, q.done) for q in quarters], most_done),
        most_running=most_running,
        most_done=most_done,
        finished=sum(quarter.done for quarter in quarters),
        hours=[] if is_idle else _hours(quarters),
    )


def _line(values: Sequence[tuple[float, float]], most: float) -> list[TrendStep]:
    return [TrendStep(time, value / (most or 1)) for time, value in values]


def _hours(quarters: Sequence[WorkQuarter]) -> list[WorkHour]:
    """Return the hours of a day, the newest first."""
    hours = [
        (hour, list(of_hour)) for hour, of_hour in groupby(quarters, lambda quarter: quarter.time // HOUR)
    ]
    return [
        WorkHour(
            time=hour * HOUR,
            running=fmean(quarter.running for quarter in of_hour),
            done=sum(quarter.done for quarter in of_hour),
        )
        for hour, of_hour in reversed(hours)
    ]
