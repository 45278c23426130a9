"""The lists that people see, as OpenAPI describes them."""

from pydantic import BaseModel

from pilotage.model.records.work import Pilot, Transfer
from pilotage.pilots.rests import QueueRest
from pilotage.store import JobView, OutputView, QueueView, ShareView, TaskView


class Tasks(BaseModel):
    """Tasks, newest first."""

    tasks: list[TaskView]


class Jobs(BaseModel):
    """Jobs by id."""

    jobs: list[JobView]


class Outputs(BaseModel):
    """The files that a task's jobs made."""

    files: list[OutputView]


class Queues(BaseModel):
    """Queues by name."""

    queues: list[QueueView]


class Shares(BaseModel):
    """Shares by name."""

    shares: list[ShareView]


class Pilots(BaseModel):
    """Pilots, newest first."""

    pilots: list[Pilot]
    resting: list[QueueRest]
    problems: list[str] = []


class BatchWaits(BaseModel):
    """The seconds that pilots waited before they called home, newest first, by queue."""

    waits: dict[str, list[float]]


class Transfers(BaseModel):
    """Transfers, newest first."""

    transfers: list[Transfer]
