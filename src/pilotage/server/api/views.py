"""The lists that people see, as OpenAPI describes them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from pilotage.model.records.work import Pilot, Transfer
from pilotage.server.api.edge.answers import PageOfList
from pilotage.server.api.places.breakers import ShownBreaker
from pilotage.store import FailedGroup, JobDetails, ListedJob, OutputView, QueueView, ShareView, TaskView


class Tasks(PageOfList):
    """Tasks, newest first unless sorted otherwise."""

    tasks: list[TaskView]


class Jobs(PageOfList):
    """Jobs by id."""

    jobs: list[ListedJob]


class JobsByQueue(BaseModel):
    """Numbers of a task's jobs."""

    queues: dict[str, dict[str, int]]
    """By queue, then by state. Jobs at no queue have an empty name."""


class FailedJobs(BaseModel):
    """Failed jobs by error and queue, most jobs first; ``left_out`` counts the jobs of further groups."""

    groups: list[FailedGroup]
    left_out: int


class Outputs(PageOfList):
    """The files that a task's jobs made."""

    files: list[OutputView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeredJob(JobDetails):
    """A job after a person's verb, and what the person should know: ``lines`` as in ``Steered``."""

    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQueue(QueueView):
    """A queue, with the number of its jobs and pilots in each state, and circuit breakers."""

    breakers: list[ShownBreaker]


class Queues(PageOfList):
    """Queues by name."""

    queues: list[ShownQueue]


class Shares(BaseModel):
    """Shares by name."""

    shares: list[ShareView]


class Pilots(PageOfList):
    """Pilots, newest first."""

    pilots: list[Pilot]
    breakers: list[ShownBreaker]
    problems: Annotated[list[str], Field(default_factory=list)]


class BatchWaits(BaseModel):
    """The seconds that pilots waited before they called home, newest first, by queue."""

    waits: dict[str, list[float]]


class Transfers(PageOfList):
    """Transfers, newest first."""

    transfers: list[Transfer]
