"""Metrics of one simulated run."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pilotage.model.values.types import DESCRIBED

from .bounds import Arrived, Ideal, earliest, fluid, ideal, power, share_error, shortest
from .idleness import Empty
from .outcomes import Outcomes, outcomes
from .scenario import Scenario
from .simulation import BEGIN, Simulation
from .usable_queues import usable

SHORT = 900.0
"""Seconds up to which a job counts as short, on a core of 10 HS23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of one run; times in s since the arrival of what they are about."""

    __pydantic_config__ = DESCRIBED

    jobs: int
    """Jobs, merge jobs and scouts included, and those that their task did not come to make."""
    lost: int
    """Jobs that ended without having finished: they failed for good, or their task did."""
    unfinished: int
    """Jobs that had not ended when the simulation did, or not been made yet."""
    work: float
    """Work done by the end of the arrivals, over what every core could have done of what had arrived."""
    done_99: float
    """s after the beginning when 99 % of all jobs had finished; the scenario's limit where fewer ever did."""
    done_99_bound: float
    """No policy has them done earlier: the work on all cores once it has come, each job on the strongest."""
    wait: float
    """Mean of the s from a task's arrival to the first start of a job, merge jobs left out; to the end of the
    simulation for one that never starts or is lost, to its limit where done_99 is."""
    wait_95: float
    """The same, of the job that waits longer than 95 % of them."""
    short_wait: float | None
    """Mean of the same for short jobs; none where no job is short."""
    task_time: float
    """Mean of the s from a task's arrival to its end; to that of the simulation where it did not finish, to
    its limit where done_99 is."""
    task_time_bound: float
    """The mean of the s of tasks that each had all cores for themselves, without waits."""
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
    """Starts of payloads for each job that started; 0 where none did."""
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


_SECONDS = (
    *("done_99", "done_99_bound", "wait", "wait_95", "short_wait", "task_time", "task_time_bound"),
    *("task_time_95", "idle_pilot", "idle_inputs", "idle_batch", "idle_unasked", "lasted"),
)
_UNITS = dict.fromkeys(_SECONDS, "s") | {"moved": "GB"}
"""Units of the metrics that are no numbers of things, and no parts of a whole."""


def label(name: str) -> str:
    """The name of a metric as people read it, with its unit."""
    unit = f" ({_UNITS[name]})" if name in _UNITS else ""
    return name.replace("_", " ") + unit


def number(value: float) -> str:
    """A value as people read it: four digits, and all of those before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def metrics(simulation: Simulation, scenario: Scenario) -> Metrics:
    """Compute the metrics of a simulation that is over."""
    journal, payloads = simulation.journal, simulation.payloads
    found, lasted = outcomes(simulation), simulation.clock() - BEGIN
    arrivals = {task: one.at for task, one in payloads.tasks.items()}
    window = max(arrivals.values(), default=0.0)
    # What never finishes is no quick end: it counts as if it took as long as all the others together. Where
    # it is so much that the others end early for it, it counts as done_99 does.
    done = found.done(0.99)
    never = scenario.limit if done is None else lasted
    waits = _waits(simulation, found, never)
    short = [wait for wait, work in waits if work <= SHORT * 10]
    times = [found.ends.get(task, never) - at for task, at in arrivals.items()]
    rate, best = _possible(simulation, scenario)
    planned = sum(len(task.works) for task in best)
    idle, granted = simulation.idleness.seconds, simulation.granted
    return Metrics(
        jobs=found.jobs,
        lost=found.lost,
        unfinished=found.unfinished,
        work=_work_done(simulation, rate, window),
        done_99=scenario.limit if done is None else done,
        done_99_bound=earliest(best, rate, found.needed(0.99, planned)),
        wait=_mean([wait for wait, _ in waits]),
        wait_95=_quantile([wait for wait, _ in waits], 0.95),
        short_wait=fmean(short) if short else None,
        task_time=_mean(times),
        task_time_bound=shortest(best, rate),
        task_time_95=_quantile(times, 0.95),
        share_error=_share_error(simulation, window),
        moved=journal.moved / 1e9,
        unused=journal.unused / journal.moved if journal.moved else 0.0,
        cpu_efficiency=sum(work for *_, work in journal.ended.values()) / granted if granted else 0.0,
        pilots=journal.pilots,
        empty_pilots=journal.empty_pilots,
        attempts=journal.starts / max(1, len(journal.first_starts)),
        **{f"idle_{name}": idle[name] / max(1, found.jobs) for name in Empty.__dataclass_fields__},
        lasted=lasted,
    )


def _work_done(simulation: Simulation, rate: float, window: float) -> float:
    worked = sum(work for time, _, work in simulation.journal.ended.values() if time - BEGIN <= window)
    bound = sum(fluid(simulation.federation.shares, _arrived(simulation), rate, window).values())
    return worked / bound if bound else 1.0


def _waits(simulation: Simulation, found: Outcomes, never: float) -> list[tuple[float, float]]:
    """The s that each job waited, with its work; until ``never`` where it did not start, or is lost.

    Merge jobs wait for the others of their task, and for slots only then.
    """
    first, payloads = simulation.journal.first_starts, simulation.payloads
    waits = []
    left = {task: Counter(one.work) for task, one in payloads.tasks.items()}
    for job, task in found.tasks.items():
        if job in first:
            waits.append((first[job] - BEGIN - payloads.tasks[task].at, payloads.works[job]))
            left[task][payloads.works[job]] -= 1
    for task, works in left.items():
        waits.extend((never - payloads.tasks[task].at, work) for work in works.elements())
    return waits


def _possible(simulation: Simulation, scenario: Scenario) -> tuple[float, list[Ideal]]:
    """The HS23 of all cores that the work may use, and the best that could become of each task."""
    found = simulation.payloads.tasks.values()
    federation = usable(simulation.federation, found)
    widest = max((one.spec.cores for one in found), default=1)
    best = [ideal(federation, one.at, one.work, one.spec.cores) for one in found]
    return power(federation, scenario, max(1, widest)), best


def _arrived(simulation: Simulation) -> list[Arrived]:
    return [(one.at, one.spec.share, sum(one.work)) for one in simulation.payloads.tasks.values()]


def _share_error(simulation: Simulation, window: float) -> float:
    share = {task: one.spec.share for task, one in simulation.payloads.tasks.items()}
    done: defaultdict[str, float] = defaultdict(float)
    for time, task, work in simulation.journal.ended.values():
        if time - BEGIN <= window:
            done[share[task]] += work
    return share_error(simulation.federation.shares, _arrived(simulation), done, window)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0
