"""Scenarios: a federation, the behaviour of its sites and links, and the arriving work, as one document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, log
from statistics import NormalDist
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.records.spec import MOST_JOBS
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.types import (
    CLOSED,
    FINITE,
    Count,
    Fraction,
    Megabytes,
    Name,
    NonNegative,
    Number,
    Positive,
    Seconds,
    Slots,
    Whole,
)
from pilotage.simulation.policies import Policy

SHORT = 0.1
"""Jobs of a short task, and their work, relative to other tasks."""

MOST_DRAWN = 10_000_000
"""Most jobs of a simulation: a million take five minutes and more than a GB."""

Spread = Annotated[float, Field(ge=0, le=5), FINITE]
"""Standard deviation of the logarithm. 0 means none; 1 makes one in six 2.7 times as long as the median."""

SHORTEST_INTERVAL = 1.0
"""Shortest interval in s. With a shorter one, a simulation would take too long."""

TICK = 30
"""Default tick of a scenario in s."""

Interval = Annotated[float, Field(ge=SHORTEST_INTERVAL, le=86_400), FINITE]
"""s between repetitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A span of time, in s since the simulation began."""

    __pydantic_config__ = CLOSED

    begins: Seconds
    """Its beginning, in s since the simulation began."""
    ends: Seconds
    """Its end, in s since the simulation began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteBehaviour:
    """Behaviour of one site: its batch system, its nodes and their faults."""

    __pydantic_config__ = CLOSED

    slots: Slots | None = None
    """Most payloads that its pilots may run together; none: as many as all its allowed pilots run."""
    slots_taken: Fraction = 0
    """Largest part of the slots that others' work takes. The actual part is drawn every hour."""
    wait: Seconds = 600
    """Median s that a pilot waits in the batch system, besides the wait for a slot."""
    wait_spread: Spread = 1
    """Spread of these waits: the standard deviation of their logarithm, which gives them a heavy tail."""
    busy: tuple[Spell, ...] = ()
    """Periods when the work of other users makes waits longer."""
    busy_factor: Annotated[float, Field(ge=1, le=1000), FINITE] = 10
    """Factor on waits that begin in these periods."""
    payload_fails: Fraction = 0
    """Part of the attempts with a payload that fails at its end."""
    never_calls: Fraction = 0
    """Part of the pilots that never contact the server."""
    answer_lost: Fraction = 0
    """Part of the calls and submissions that take effect although their answer is lost."""
    nodes: Positive = 10
    """Number of nodes. Pilots start on random ones."""
    black_holes: Number = 0
    """Number of nodes where each payload fails within seconds."""
    outages: tuple[Spell, ...] = ()
    """Periods when the site does not answer. At their start, everything that runs there vanishes."""
    cuts: tuple[Spell, ...] = ()
    """Periods when no call of its pilots reaches the server. Payloads run on until their lease ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBehaviour:
    """Behaviour of the links. Deliveries on a link share its throughput evenly."""

    __pydantic_config__ = CLOSED

    throughput: Annotated[float, Field(gt=0, le=1e6), FINITE] = 10
    """MB/s of links without a throughput of the last hour in the federation."""
    factor: Annotated[float, Field(gt=0, le=1000), FINITE] = 1
    """Factor on every link's throughput."""
    transfer_fails: Fraction = 0
    """Part of the deliveries that fail at their end.

    Several failures in a row open a circuit breaker (F4).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageBehaviour:
    """Behaviour of one storage."""

    __pydantic_config__ = CLOSED

    outages: tuple[Spell, ...] = ()
    """Periods when it does not answer: deliveries from and to it fail. Pilots can still read and write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user who submits part of the generated work."""

    __pydantic_config__ = CLOSED

    name: Name
    """The user."""
    vo: Name = "sim"
    """The VO."""
    share: Annotated[str, Field(max_length=200)] = ""
    """The global share; empty: the federation's first."""
    part: Annotated[float, Field(gt=0, le=1e6), FINITE] = 1
    """Part of the tasks, relative to the other users'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedWork:
    """Randomly drawn work. The same seed gives the same work."""

    __pydantic_config__ = CLOSED

    tasks: Annotated[Whole, Field(ge=1, le=100_000)] = 20
    """Number of tasks."""
    jobs: Annotated[Whole, Field(ge=1, le=100_000)] = 50
    """Median number of jobs per task."""
    jobs_spread: Spread = 0.5
    """Spread of the number of jobs per task: the standard deviation of its logarithm."""
    arrivals: Seconds = 86_400
    """s during which the tasks arrive, at uniformly random times."""
    work: Annotated[float, Field(gt=0, le=1e9), FINITE] = 36_000
    """Median HS23 s of a job. The default is an hour on a core of 10 HS23."""
    work_spread: Spread = 0.5
    """Spread of the work between tasks: the standard deviation of its logarithm."""
    job_spread: Spread = 0.2
    """Spread of the work between jobs of a task: the standard deviation of its logarithm."""
    short: Fraction = 0
    """Part of the tasks that are short: a tenth of the jobs, each with a tenth of the work."""
    cores: Positive = 1
    """Cores that each job of a multi-core task uses."""
    multicore: Fraction = 0
    """Part of the tasks that are multi-core. All others use one core."""
    file_size: Megabytes = 0
    """MB that each job reads from one file; 0: none."""
    replicas: Positive = 1
    """Number of random storages that hold each task's files."""
    io_intensity: NonNegative = 0
    """kB/s of I/O that the tasks declare (B11)."""
    output_size: Megabytes = 1
    """MB of output per job."""
    nucleus: str = ""
    """The site that gathers the outputs; empty: they stay where they are made."""
    scouts: Annotated[Whole, Field(ge=0, le=1000)] = 0
    """Scouts per task, which measure what its other jobs need."""
    users: Annotated[tuple[User, ...], Field(min_length=1, max_length=1000)] = (User(name="alice"),)
    """Who submits the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfWork:
    """Work from a log in the Standard Workload Format. Each job of it becomes a task with one job."""

    __pydantic_config__ = CLOSED

    path: str
    """The file, relative to the scenario's."""
    vo: Name = "swf"
    """The VO of its users."""
    first: Count = 0
    """Jobs to skip at the beginning of the log."""
    jobs: Positive = 1000
    """Most jobs to use."""
    most_cores: Positive = 1
    """Most cores of a job. Jobs with more are left out."""
    core_power: Annotated[float, Field(gt=0, le=1e9), FINITE] = 10
    """HS23 per core of the machine that wrote the log."""
    faster: Annotated[float, Field(gt=0, le=1e6), FINITE] = 1
    """Factor that makes arrivals faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A task and the time of its submission."""

    __pydantic_config__ = CLOSED

    task: TaskSpec
    """The submitted task."""
    at: Seconds = 0
    """Time of submission, in s since the simulation began."""
    user: Name = "alice"
    """The user who submits it."""
    vo: Name | Literal[""] = "sim"
    """The user's VO; empty: none."""
    work: Annotated[float, Field(gt=0, le=1e12), FINITE] = 36_000
    """True HS23 s of each of its jobs on one core. The task's estimate may differ."""
    job_spread: Spread = 0
    """Spread of the work between its jobs: the standard deviation of its logarithm."""
    output_size: Megabytes = 1
    """MB of output per job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A document for ``pilotage simulate``. With a seed it determines a simulation completely."""

    __pydantic_config__ = CLOSED

    name: Name
    """Name of the scenario."""
    federation: str
    """The federation's file, relative to the scenario's. Its computing elements become virtual."""
    default_site: SiteBehaviour = field(default_factory=SiteBehaviour)
    """Behaviour of sites that are not in ``sites``."""
    sites: Mapping[str, SiteBehaviour] = field(default_factory=dict)
    """Behaviour by site."""
    links: LinkBehaviour = field(default_factory=LinkBehaviour)
    """Behaviour of the links."""
    storages: Mapping[str, StorageBehaviour] = field(default_factory=dict)
    """Behaviour by storage."""
    generated: GeneratedWork | None = None
    """Randomly drawn work."""
    swf: SwfWork | None = None
    """Work from a log."""
    tasks: tuple[Arrival, ...] = ()
    """Work given task by task."""
    estimate_spread: Spread = 0
    """Spread of tasks' estimates of their work around the truth: the standard deviation of the logarithm.
    Tasks given one by one keep their own estimates."""
    limit: Annotated[float, Field(gt=0, le=1e8), FINITE] = 7 * 86_400
    """The simulation ends after so many s, even with work left. No work may arrive later."""
    tick: Interval = TICK
    """s between two moments when pilots call and steps run. A longer tick is faster and coarser."""
    period: Interval = 300
    """s between two passes of a step that nothing wakes. It replaces the federation's value."""
    heartbeat: Interval = 1800
    """s between two reports of a pilot. It replaces the federation's value."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """Policies besides the known ones, by name."""

    def site(self, name: str) -> SiteBehaviour:
        """Return the behaviour of a site."""
        return self.sites.get(name, self.default_site)


def expected_jobs(work: GeneratedWork) -> float:
    """Return the expected number of jobs of all tasks together, over all seeds."""
    short = work.short * _mean(work.jobs * SHORT, work.jobs_spread)
    return work.tasks * (short + (1 - work.short) * _mean(work.jobs, work.jobs_spread))


def _mean(median: float, spread: float) -> float:
    """Return the mean of a lognormal number of jobs, capped at the most jobs of a task.

    Without the cap, a wide spread would count jobs that are never drawn.
    """
    if not spread:
        return min(MOST_JOBS, max(1.0, median))
    below = NormalDist().cdf
    limit = log(MOST_JOBS / median) / spread
    inside = median * exp(spread**2 / 2) * below(limit - spread)
    return max(1.0, inside + MOST_JOBS * (1 - below(limit)))
