"""Scenarios: a federation, the behaviour of its sites and links, and the work that comes, as one document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

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

from .policies import Policy

Spread = Annotated[float, Field(ge=0, le=5), FINITE]
"""Standard deviation of the logarithm: 0 is none, 1 makes one in six 2.7 times as long as the median."""

SHORTEST_INTERVAL = 1.0
"""s below which a simulation would pass through more moments than anybody waits for."""

TICK = 30
"""s of a scenario's tick that says nothing."""

Interval = Annotated[float, Field(ge=SHORTEST_INTERVAL, le=86_400), FINITE]
"""s between two moments at which something happens again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A span of time, in s since the simulation began."""

    __pydantic_config__ = CLOSED

    begins: Seconds
    """When it begins, in s since the simulation began."""
    ends: Seconds
    """When it ends, in s since the simulation began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteBehaviour:
    """Behaviour of one site: its batch system, its nodes and their faults."""

    __pydantic_config__ = CLOSED

    slots: Slots | None = None
    """Payloads that its pilots may run at the same time; none: those of all pilots that may be there."""
    slots_taken: Fraction = 0
    """Part of the slots that others' work takes at most: the part is drawn anew each hour."""
    wait: Seconds = 600
    """Median of the s that a pilot waits in the batch system, beyond the wait for a slot."""
    wait_spread: Spread = 1
    """Spread of these waits: the standard deviation of their logarithm, which gives them a heavy tail."""
    busy: tuple[Spell, ...] = ()
    """Spells in which others' work makes waits longer."""
    busy_factor: Annotated[float, Field(ge=1, le=1000), FINITE] = 10
    """Factor on waits that begin in these."""
    payload_fails: Fraction = 0
    """Part of the attempts whose payload fails at its end."""
    never_calls: Fraction = 0
    """Part of the pilots that never call home."""
    answer_lost: Fraction = 0
    """Part of the calls and submissions that take effect, though their answer never arrives."""
    nodes: Positive = 10
    """Nodes on which pilots start, by chance."""
    black_holes: Number = 0
    """Nodes on which each payload fails within seconds."""
    outages: tuple[Spell, ...] = ()
    """Spells in which the site does not answer; what runs there when one begins vanishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBehaviour:
    """Behaviour of the links, whose deliveries share what a link carries evenly."""

    __pydantic_config__ = CLOSED

    throughput: Annotated[float, Field(gt=0, le=1e6), FINITE] = 10
    """MB/s of links for which the federation has no throughput of the last hour."""
    factor: Annotated[float, Field(gt=0, le=1000), FINITE] = 1
    """Factor on every link's throughput."""
    transfer_fails: Fraction = 0
    """Part of the deliveries that fail at their end; after some in a row what is moved there rests (F4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageBehaviour:
    """Behaviour of one storage."""

    __pydantic_config__ = CLOSED

    outages: tuple[Spell, ...] = ()
    """Spells in which it does not answer: deliveries from it and to it fail. What pilots read and write
    themselves goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who submits a part of the generated work."""

    __pydantic_config__ = CLOSED

    name: Name
    """The user."""
    vo: Name = "sim"
    """The VO."""
    share: Annotated[str, Field(max_length=200)] = ""
    """The global share; empty: the federation's first."""
    part: Annotated[float, Field(gt=0, le=1e6), FINITE] = 1
    """Part of the tasks, against those of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedWork:
    """Work drawn by chance, the same for the same seed."""

    __pydantic_config__ = CLOSED

    tasks: Annotated[Whole, Field(ge=1, le=100_000)] = 20
    """Tasks."""
    jobs: Annotated[Whole, Field(ge=1, le=100_000)] = 50
    """Median of the jobs of a task."""
    jobs_spread: Spread = 0.5
    """Spread of the jobs of a task: the standard deviation of the logarithm of their number."""
    arrivals: Seconds = 86_400
    """s in which the tasks arrive, evenly by chance."""
    work: Annotated[float, Field(gt=0, le=1e9), FINITE] = 36_000
    """Median of the HS23 seconds of a job: the default is an hour on a core of 10 HS23."""
    work_spread: Spread = 0.5
    """Spread of the work between tasks, likewise."""
    job_spread: Spread = 0.2
    """Spread of the work between jobs of one task, likewise."""
    short: Fraction = 0
    """Part of the tasks that are short: a tenth of the jobs, of a tenth of the work."""
    cores: Positive = 1
    """Cores that each job of a multi-core task uses."""
    multicore: Fraction = 0
    """Part of the tasks that are multi-core; all others use one."""
    file_size: Megabytes = 0
    """MB that each job reads, from one file; 0: nothing."""
    replicas: Positive = 1
    """Storages that hold each task's files, by chance."""
    io_intensity: NonNegative = 0
    """kB/s of I/O that the tasks declare (B11)."""
    output_size: Megabytes = 1
    """MB that each job leaves."""
    nucleus: str = ""
    """The site that gathers the outputs; empty: they stay where they are made."""
    scouts: Annotated[Whole, Field(ge=0, le=1000)] = 0
    """Scouts of a task, which measure what its other jobs need."""
    users: Annotated[tuple[User, ...], Field(min_length=1, max_length=1000)] = (User(name="alice"),)
    """Who submits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfWork:
    """Work of a log in the Standard Workload Format: each of its jobs is a task of one job."""

    __pydantic_config__ = CLOSED

    path: str
    """The file, relative to the scenario's."""
    vo: Name = "swf"
    """The VO of its users."""
    first: Count = 0
    """Jobs of the log that are left out at its beginning."""
    jobs: Positive = 1000
    """Jobs that are taken at most."""
    most_cores: Positive = 1
    """Cores beyond which a job is left out."""
    core_power: Annotated[float, Field(gt=0, le=1e9), FINITE] = 10
    """HS23 per core of the machine whose log it is."""
    faster: Annotated[float, Field(gt=0, le=1e6), FINITE] = 1
    """Factor by which arrivals are drawn together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A task that is submitted at a time."""

    __pydantic_config__ = CLOSED

    task: TaskSpec
    """What is submitted."""
    at: Seconds = 0
    """When, in s since the simulation began."""
    user: Name = "alice"
    """Who submits it."""
    vo: Name | Literal[""] = "sim"
    """The user's VO; empty: none."""
    work: Annotated[float, Field(gt=0, le=1e12), FINITE] = 36_000
    """HS23 seconds that each of its jobs takes on one core in truth, whatever the task estimates."""
    job_spread: Spread = 0
    """Spread of the work between its jobs: the standard deviation of its logarithm."""
    output_size: Megabytes = 1
    """MB that each job leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A document for ``pilotage simulate``: everything but the seed that a simulation follows from."""

    __pydantic_config__ = CLOSED

    name: Name
    """Name of the scenario."""
    federation: str
    """File of the federation, relative to the scenario's. Its computing elements are virtual here."""
    default_site: SiteBehaviour = field(default_factory=SiteBehaviour)
    """Behaviour of sites that ``sites`` does not name."""
    sites: Mapping[str, SiteBehaviour] = field(default_factory=dict)
    """Behaviour by site."""
    links: LinkBehaviour = field(default_factory=LinkBehaviour)
    """Behaviour of the links."""
    storages: Mapping[str, StorageBehaviour] = field(default_factory=dict)
    """Behaviour by storage."""
    generated: GeneratedWork | None = None
    """Work drawn by chance."""
    swf: SwfWork | None = None
    """Work of a log."""
    tasks: tuple[Arrival, ...] = ()
    """Work that is given task by task."""
    estimate_spread: Spread = 0
    """Spread of what tasks estimate of their work around the truth: the standard deviation of its logarithm.
    Given tasks have their own estimates."""
    limit: Annotated[float, Field(gt=0, le=1e8), FINITE] = 7 * 86_400
    """s after which a simulation ends, whatever has not ended by then; no work may come later."""
    tick: Interval = TICK
    """s between two moments at which pilots call and steps are taken: longer ones are faster and coarser."""
    period: Interval = 300
    """s between two passes of a step that nothing wakes, in place of the federation's."""
    heartbeat: Interval = 1800
    """s between two reports of a pilot, in place of the federation's."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """Policies beside the known ones, by name."""

    def site(self, name: str) -> SiteBehaviour:
        """Return the behaviour of a site."""
        return self.sites.get(name, self.default_site)
