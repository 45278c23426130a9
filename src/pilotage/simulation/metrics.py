"""Metrics of one simulated run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from sqlalchemy import select

from pilotage.model.states import ENDED, JobState, TaskState
from pilotage.model.types import DESCRIBED
from pilotage.store.jobs import JOB_STATES, jobs
from pilotage.store.tasks import tasks

from .bounds import Arrived, fair_work, fluid, power
from .idleness import Empty
from .scenario import Scenario
from .simulation import BEGIN, Simulation

SHORT = 900.0
"""Seconds up to which a job counts as short, on a core of 10 HS23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of one run; times in s since the arrival of what they are about."""

    __pydantic_config__ = DESCRIBED

    jobs: int
    """Jobs, merge jobs and scouts included."""
    lost: int
    """Jobs that failed for good."""
    unfinished: int
    """Jobs that had not ended when the simulation did."""
    work: float
    """Work done by the end of the arrivals, over what every core could have done of what had arrived."""
    done_99: float
    """s after the beginning when 99 % of all jobs had finished; the simulation's end where fewer did."""
    wait: float
    """Mean of the s from a task's arrival to the first start of a job."""
    wait_95: float
    """The same, of the job that waits longer than 95 % of them."""
    short_wait: float
    """Mean of the same for short jobs; 0 without any."""
    task_time: float
    """Mean of the s from a task's arrival to its end, at most to that of the simulation."""
    task_time_95: float
    """The same, of the task that takes longer than 95 % of them."""
    share_error: float
    """Part of the work done during the arrivals that went to another share than was due of what had come."""
    moved: float
    """GB brought to storages for jobs to read, or read by them from afar."""
    unused: float
    """Part of these that no job read."""
    cpu_efficiency: float
    """Work of payloads that ended well, over what the cores could do while pilots held them."""
    pilots: int
    """Pilots that started."""
    empty_pilots: int
    """Those that ended without having had a job."""
    attempts: float
    """Starts of payloads that ended well or badly, for each job that finished."""
    idle_pilot: float
    """s of slots that were empty while jobs waited, for each job: a pilot had the slot free."""
    idle_inputs: float
    """The same: a pilot had it free, and inputs of jobs were still to come."""
    idle_batch: float
    """The same: a pilot for it waited in the batch system."""
    idle_unasked: float
    """The same: no pilot had been asked for."""
    lasted: float
    """Virtual s that were simulated."""


@dataclass(frozen=True, slots=True)
class _Row:
    task: int
    state: JobState
    since: float
    attempt: int


def metrics(simulation: Simulation, scenario: Scenario) -> Metrics:
    """Compute the metrics of a simulation that is over."""
    journal, payloads = simulation.journal, simulation.payloads
    rows = _jobs(simulation)
    finished = sorted(row.since - BEGIN for row in rows.values() if row.state is JobState.FINISHED)
    arrivals = {task: one.at for task, one in payloads.tasks.items()}
    window = max(arrivals.values(), default=0.0)
    waits = {job: time - BEGIN - arrivals[rows[job].task] for job, time in journal.first_starts.items()}
    short = [wait for job, wait in waits.items() if payloads.work(rows[job].task, job) <= SHORT * 10]
    times = _task_times(simulation, arrivals)
    worked = sum(work for time, _, work in journal.ended if time - BEGIN <= window)
    rate = power(simulation.federation, scenario)
    bound = sum(fluid(simulation.federation.shares, _arrived(simulation), rate, window).values())
    lasted = simulation.clock() - BEGIN
    needed = ceil(0.99 * len(rows))
    idle, granted = simulation.idleness.seconds, simulation.granted
    return Metrics(
        jobs=len(rows),
        lost=sum(row.state is JobState.FAILED for row in rows.values()),
        unfinished=sum(row.state not in ENDED["job"] for row in rows.values()),
        work=worked / bound if bound else 1.0,
        done_99=finished[needed - 1] if 0 < needed <= len(finished) else lasted,
        wait=_mean(list(waits.values())),
        wait_95=_quantile(list(waits.values()), 0.95),
        short_wait=_mean(short),
        task_time=_mean(times),
        task_time_95=_quantile(times, 0.95),
        share_error=_share_error(simulation, window),
        moved=journal.moved / 1e9,
        unused=journal.unused / journal.moved if journal.moved else 0.0,
        cpu_efficiency=sum(work for *_, work in journal.ended) / granted if granted else 0.0,
        pilots=journal.pilots,
        empty_pilots=journal.empty_pilots,
        attempts=sum(row.attempt for row in rows.values()) / max(1, len(finished)),
        **{f"idle_{name}": idle[name] / max(1, len(rows)) for name in Empty.__dataclass_fields__},
        lasted=lasted,
    )


def _jobs(simulation: Simulation) -> dict[int, _Row]:
    columns = (jobs.c.id, jobs.c.task, jobs.c.state, jobs.c.since, jobs.c.attempt)
    found = simulation.store.database.read(lambda connection: connection.execute(select(*columns)).all())
    return {row[0]: _Row(row[1], JOB_STATES[row[2]], row[3], row[4]) for row in found}


def _task_times(simulation: Simulation, arrivals: dict[int, float]) -> list[float]:
    columns = (tasks.c.id, tasks.c.state, tasks.c.since)
    found = simulation.store.database.read(lambda connection: connection.execute(select(*columns)).all())
    now = simulation.clock()
    return [
        (row[2] if row[1] in (TaskState.FINISHED, TaskState.FAILED) else now) - BEGIN - arrivals[row[0]]
        for row in found
    ]


def _arrived(simulation: Simulation) -> list[Arrived]:
    return [(one.at, one.spec.share, sum(one.work)) for one in simulation.payloads.tasks.values()]


def _share_error(simulation: Simulation, window: float) -> float:
    share = {task: one.spec.share for task, one in simulation.payloads.tasks.items()}
    done: defaultdict[str, float] = defaultdict(float)
    for time, task, work in simulation.journal.ended:
        if time - BEGIN <= window:
            done[share[task]] += work
    total = sum(done.values())
    fair = fair_work(simulation.federation.shares, _arrived(simulation), total, window) if total else {}
    return sum(abs(done[name] - fair[name]) for name in {*done, *fair}) / 2 / total if total else 0.0


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0
