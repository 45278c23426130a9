"""Which jobs a pilot could run: one comparison, for one task queue or for columns of many (P7, P13)."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from pilotage.model.circuit_breakers.empty_pilots import is_missed
from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import Pilot, PilotKind, Requirements
from pilotage.policies.pilots.task_queues import walltime_left, walltime_needed

if TYPE_CHECKING:  # an idle server does without numpy
    import numpy as np
    from numpy.typing import NDArray


class Needs(NamedTuple):
    """The needs of a job at a queue: values for one task queue, or columns with one row per task queue.

    Memory is in MB, walltime in s. ``owner`` identifies the owner, in the same form as in ``PilotResources``.
    """

    cores: Any
    memory: Any
    gpus: Any
    walltime: Any
    container: Any
    private: Any
    owner: Any


class PilotResources(NamedTuple):
    """A pilot's resources for jobs. A ``private`` pilot runs only its owner's jobs (P7)."""

    kind: PilotKind
    owner: Any
    cores: int
    memory: float
    gpus: float
    walltime: float
    containers: bool


def needs(requirements: Requirements, queue: Queue) -> Needs:
    """Return the needs of a task queue's job at a queue."""
    return Needs(
        cores=requirements.cores,
        memory=requirements.memory,
        gpus=requirements.gpus,
        walltime=walltime_needed(requirements, queue),
        container=requirements.container,
        private=requirements.private,
        owner=(requirements.vo, requirements.group, requirements.owner),
    )


def offered(request: MatchRequest, pilot: Pilot) -> PilotResources:
    """Return the free resources of a pilot that asks for jobs."""
    owner = request.owner
    return PilotResources(
        cores=request.cores,
        memory=request.memory or inf,
        gpus=request.gpus,
        walltime=walltime_left(request, pilot),
        containers=request.containers,
        kind=request.kind,
        owner=(owner.vo, owner.group, owner.name),
    )


def promised(pilot: Pilot) -> PilotResources:
    """Return a pilot's resources while all of its slots are free.

    Assume that its node has everything else.
    """
    return PilotResources(
        cores=pilot.cores,
        memory=pilot.memory or inf,
        gpus=inf,
        walltime=pilot.walltime,
        containers=True,
        kind=pilot.kind,
        owner=(pilot.owner.vo, pilot.owner.group, pilot.owner.name),
    )


class NeedsTable:
    """The needs of task queues as columns, and their owners by number."""

    def __init__(self, rows: Sequence[Needs]) -> None:
        self.numbers = {
            key: number for number, key in enumerate(dict.fromkeys(job_needs.owner for job_needs in rows))
        }
        import numpy as np

        types = (np.int64, np.float64, np.int64, np.float64, np.bool_, np.bool_)
        columns = zip(*rows, strict=True) if rows else ((),) * len(Needs._fields)
        *numbers, owners = columns
        arrays: list[Any] = [np.array(column, dtype=of) for column, of in zip(numbers, types, strict=True)]
        arrays.append(np.array([self.numbers[key] for key in owners], dtype=np.int64))
        self.needs = Needs._make(arrays)
        self.most = Needs._make([*(max(column, default=0) for column in numbers), None])
        """The highest need of each kind, without an owner."""

    def fitting(self, has: PilotResources) -> "NDArray[np.bool_]":
        """Return for each task queue whether a pilot could run its jobs."""
        # No row has the number -1, so a private pilot of an owner without task queues here fits none.
        is_fitting: NDArray[np.bool_] = fits(self.needs, has._replace(owner=self.numbers.get(has.owner, -1)))
        return is_fitting


def fits(needed: Needs, has: PilotResources) -> Any:
    """Return whether a pilot could run such jobs; for columns, an answer for each row."""
    # ``<`` works on values and on columns: False is less than True.
    may_run = needed.owner == has.owner if has.kind == "private" else needed.private < True
    return (
        may_run
        & (needed.cores <= has.cores)
        & (needed.memory <= has.memory)
        & (needed.gpus <= has.gpus)
        & (needed.walltime <= has.walltime)
        & (needed.container <= has.containers)
    )


def eligible_pilots(queue: Queue, requirements: str, pilots: Iterable[Pilot]) -> list[Pilot]:
    """Return the pilots of a queue that could run such a job if all their slots were free."""
    parsed = Requirements.from_text(requirements)
    needed = needs(parsed, queue)
    return [pilot for pilot in pilots if fits(needed, promised(pilot)) and not is_missed(pilot.lacks, parsed)]
