"""Queues with pilots that may take a waiting job, and jobs that pilots took from other queues (E1 to E3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.records.constants import BindingConstants
from pilotage.model.records.spec import Binding, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import DESCRIBED

CAUSE = "matched to a pilot"
"""Why a job goes to a pilot of its own queue, in its history."""

CAUSES: Mapping[Binding, str] = {
    "elastic": "borrowed by a pilot that ends it sooner",
    "late": "bound to none, taken by a pilot of another candidate",
}
"""Why a job goes to another queue's pilot, by its binding, for its history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """A queue that passed every check of a choice, for jobs that may leave the queue where they wait."""

    __pydantic_config__ = DESCRIBED

    choice: int
    """Number of the stored choice."""
    queue: str
    """The queue."""
    binding: Binding
    """``elastic`` or ``late``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowableLine:
    """Similar waiting jobs of one choice at a queue. Pilots of other candidates may take them (E1, E4)."""

    __pydantic_config__ = DESCRIBED

    choice: int
    """Number of the stored choice."""
    queue: str
    """The queue where they wait."""
    requirements: str
    """The common properties of the jobs, as ``Requirements.text``."""
    jobs: int
    """Waiting jobs; of a long line only its tail."""
    priority: int
    """The highest priority among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowing:
    """A job that a pilot took from another queue, with the prediction behind that."""

    __pydantic_config__ = DESCRIBED

    job: int
    """The job."""
    attempt: int
    """The attempt that the pilot took."""
    time: float
    """When the pilot took it, in s since 1970."""
    preferred: str
    """The queue where it waited."""
    queue: str
    """The queue whose pilot took it."""
    site: str
    """The site of that queue, where its inputs go."""
    binding: Binding
    """``elastic`` or ``late``."""
    ahead: int
    """Jobs of its share ahead of it there."""
    staging: float
    """MB of its inputs that were still missing there."""
    ends_there: float
    """Predicted end at the preferred queue, in s since 1970."""
    ends_here: float
    """Predicted end at the queue that took it, in s since 1970."""
    nothing_for: float = 0.0
    """s since anything had started there, used to predict the wait; 0 if jobs of its share ran."""
    reads: Mapping[str, float] = field(default_factory=dict)
    """MB/s that it reads over links, averaged over its run, by the source site (E3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A waiting job as the pilots of another queue value it."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    binding: Binding
    """``elastic`` or ``late``."""
    gain: float | None
    """s that it would end sooner there; none: its input could not be read there."""
    needed: float
    """Least gain in s for borrowing it (E2)."""
    obstacle: str = ""
    """What prevents borrowing at any gain (E3); empty: nothing."""


def binding_of(
    spec: TaskSpec, owner: Identity, constants: BindingConstants, plugin: Binding | None = None
) -> Binding:
    """Return the binding of a task: a stated one, else the federation's (E1)."""
    return said_binding(spec, owner, constants, plugin) or constants.default


def said_binding(
    spec: TaskSpec, owner: Identity, constants: BindingConstants, plugin: Binding | None
) -> Binding | None:
    """Return the binding stated by a task, else by its owner's VO, else by its plugin; None if none states
    one."""
    return spec.binding or constants.by_vo.get(owner.vo) or plugin
