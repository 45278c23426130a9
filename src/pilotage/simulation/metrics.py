"""Metrics of one simulated run."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pilotage.model.rules.stuck import quantile
from pilotage.model.values.types import DESCRIBED
from pilotage.simulation.bounds import Arrived, Ideal, earliest, fluid, ideal, power, share_error, shortest
from pilotage.simulation.idleness import Empty
from pilotage.simulation.outcomes import Outcomes, outcomes
from pilotage.simulation.reading import usable_queues
from pilotage.simulation.scenario import Scenario
from pilotage.simulation.simulation import BEGIN, Simulation

SHORT = 900.0
"""Longest short job, in s on a core of 10 HS23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of one run. Times are in s, counted from the arrival of the job or task."""

    __pydantic_config__ = DESCRIBED

    jobs: int
    """Jobs, including merge jobs, scouts, and jobs that their task never made."""
    lost: int
    """Jobs that ended without success: they failed for good, or their task did."""
    unfinished: int
    """Jobs that had not ended at the end of the simulation, or were not made yet."""
    work: float
    """Work done by the end of the arrivals, relative to what all cores could have done of the arrived
    work."""
    done_99: float
    """s from the beginning until 99 % of all jobs had finished; the scenario's limit if fewer ever did."""
    done_99_bound: float
    """A lower bound of done_99 for any policy: the work runs on all cores once it has arrived, each job on
    the strongest."""
    wait: float
    """Mean s from a task's arrival to the first start of a job, without merge jobs. For a job that never
    starts or is lost: to the end of the simulation, or to the limit if done_99 is the limit."""
    wait_95: float
    """The 95th percentile of these waits."""
    short_wait: float | None
    """Mean wait of short jobs; none if no job is short."""
    task_time: float
    """Mean s from a task's arrival to its end. If it did not finish: to the end of the simulation, or to
    the limit if done_99 is the limit."""
    task_time_bound: float
    """Mean s of the tasks if each had all cores for itself, without waits."""
    task_time_95: float
    """The 95th percentile of these times."""
    share_error: float
    """Fraction of the work during the arrivals that was done for the wrong shares, given the arrived work."""
    moved: float
    """GB delivered to storages as input of jobs, or read by jobs remotely."""
    unused: float
    """Part of these GB that no job read."""
    cpu_efficiency: float
    """Work of successful payloads, relative to what the cores could do while pilots held them."""
    pilots: int
    """Pilots that started."""
    empty_pilots: int
    """Pilots that ended without having had a job."""
    attempts: float
    """Starts of payloads per started job; 0 if none started."""
    idle_pilot: float
    """Slot seconds per job that were empty while jobs waited: a pilot had the slot free."""
    idle_inputs: float
    """The same for slots that a pilot had free while inputs of jobs were still missing."""
    idle_batch: float
    """The same for slots of pilots that waited in the batch system."""
    idle_unasked: float
    """The same for slots without a requested pilot."""
    lasted: float
    """Simulated time in s."""


_SECONDS = (
    *("done_99", "done_99_bound", "wait", "wait_95", "short_wait", "task_time", "task_time_bound"),
    *("task_time_95", "idle_pilot", "idle_inputs", "idle_batch", "idle_unasked", "lasted"),
)
_UNITS = dict.fromkeys(_SECONDS, "s") | {"moved": "GB"}
"""Units of the metrics that are neither counts nor parts of a whole."""


def label(name: str) -> str:
    """Return a metric's name for people, with its unit."""
    unit = f" ({_UNITS[name]})" if name in _UNITS else ""
    return name.replace("_", " ") + unit


def number(value: float) -> str:
    """Return a value for people: four digits, and all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def metrics(simulation: Simulation, scenario: Scenario) -> Metrics:
    """Compute the metrics of a finished simulation."""
    journal, payloads = simulation.journal, simulation.payloads
    results, lasted = outcomes(simulation), simulation.clock() - BEGIN
    arrivals = {task: task_load.at for task, task_load in payloads.tasks.items()}
    window = max(arrivals.values(), default=0.0)
    # An unfinished task is not a fast one: it counts as if it took as long as all others together. If that is
    # so much that the others end early for it, it counts as in done_99.
    done = results.done(0.99)
    never = scenario.limit if done is None else lasted
    waits = _waits(simulation, results, never)
    short = [wait for wait, work in waits if work <= SHORT * 10]
    times = [results.ends.get(task, never) - at for task, at in arrivals.items()]
    rate, best = _possible(simulation, scenario)
    planned = sum(len(task.works) for task in best)
    idle, granted = simulation.idleness.seconds, simulation.granted
    return Metrics(
        jobs=results.jobs,
        lost=results.lost,
        unfinished=results.unfinished,
        work=_work_done(simulation, rate, window),
        done_99=scenario.limit if done is None else done,
        done_99_bound=earliest(best, rate, results.needed(0.99, planned)),
        wait=_mean([wait for wait, _ in waits]),
        wait_95=quantile([wait for wait, _ in waits], 0.95),
        short_wait=fmean(short) if short else None,
        task_time=_mean(times),
        task_time_bound=shortest(best, rate),
        task_time_95=quantile(times, 0.95),
        share_error=_share_error(simulation, window),
        moved=journal.moved / 1e9,
        unused=journal.unused / journal.moved if journal.moved else 0.0,
        cpu_efficiency=sum(work for *_, work in journal.ended.values()) / granted if granted else 0.0,
        pilots=journal.pilots,
        empty_pilots=journal.empty_pilots,
        attempts=journal.starts / max(1, len(journal.first_starts)),
        **{f"idle_{name}": idle[name] / max(1, results.jobs) for name in Empty.__dataclass_fields__},
        lasted=lasted,
    )


def _work_done(simulation: Simulation, rate: float, window: float) -> float:
    worked = sum(work for time, _, work in simulation.journal.ended.values() if time - BEGIN <= window)
    bound = sum(fluid(simulation.federation.shares, _arrived(simulation), rate, window).values())
    return worked / bound if bound else 1.0


def _waits(simulation: Simulation, results: Outcomes, never: float) -> list[tuple[float, float]]:
    """Return the s that each job waited, with its work; until ``never`` if it did not start or is lost.

    Merge jobs wait for the other jobs of their task first, and only then for slots.
    """
    first, payloads = simulation.journal.first_starts, simulation.payloads
    waits = []
    unstarted = {task: Counter(task_load.work) for task, task_load in payloads.tasks.items()}
    for job, task in results.tasks.items():
        if job in first:
            waits.append((first[job] - BEGIN - payloads.tasks[task].at, payloads.works[job]))
            unstarted[task][payloads.works[job]] -= 1
    for task, works in unstarted.items():
        waits.extend((never - payloads.tasks[task].at, work) for work in works.elements())
    return waits


def _possible(simulation: Simulation, scenario: Scenario) -> tuple[float, list[Ideal]]:
    """Return the HS23 of all cores that the work may use, and the best possible outcome of each task."""
    loads = simulation.payloads.tasks.values()
    federation = usable_queues(simulation.federation, loads)
    widest = max((load.spec.cores for load in loads), default=1)
    best = [ideal(federation, load.at, load.work, load.spec.cores) for load in loads]
    return power(federation, scenario, max(1, widest)), best


def _arrived(simulation: Simulation) -> list[Arrived]:
    return [(load.at, load.spec.share, sum(load.work)) for load in simulation.payloads.tasks.values()]


def _share_error(simulation: Simulation, window: float) -> float:
    share = {task: load.spec.share for task, load in simulation.payloads.tasks.items()}
    done: defaultdict[str, float] = defaultdict(float)
    for time, task, work in simulation.journal.ended.values():
        if time - BEGIN <= window:
            done[share[task]] += work
    return share_error(simulation.federation.shares, _arrived(simulation), done, window)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
