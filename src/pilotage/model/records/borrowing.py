"""Queues whose pilots may take a waiting job, and the jobs that pilots took from other queues (E1 to E3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.values.identity import Identity
from pilotage.model.values.types import DESCRIBED

from .constants import BindingConstants
from .spec import Binding, TaskSpec

CAUSE = "matched to a pilot (P13)"
"""Why a job goes to a pilot of its own queue, in its history."""

CAUSES: Mapping[Binding, str] = {
    "elastic": "borrowed by a pilot that ends it sooner (E2)",
    "late": "bound to none, taken by a pilot of another candidate (E1)",
}
"""Why a job goes to a pilot of another queue, by its binding, in its history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """A queue that passed in a choice whose jobs may be taken elsewhere."""

    __pydantic_config__ = DESCRIBED

    choice: int
    """Number of the stored choice."""
    queue: str
    """The queue."""
    binding: Binding
    """``elastic`` or ``late``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowableLine:
    """Waiting jobs of one choice at a queue, alike, which pilots of other candidates may take (E1, E4)."""

    __pydantic_config__ = DESCRIBED

    choice: int
    """Number of the stored choice."""
    queue: str
    """The queue where they wait."""
    requirements: str
    """What the jobs have in common, as ``Requirements.text``."""
    jobs: int
    """Jobs that wait; of a long line its tail alone."""
    priority: int
    """The highest priority among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowing:
    """A job that a pilot took from another queue, with the prediction that it was taken for."""

    __pydantic_config__ = DESCRIBED

    job: int
    """The job."""
    attempt: int
    """The attempt that was taken."""
    time: float
    """When it was taken, in s since 1970."""
    preferred: str
    """The queue where it waited."""
    queue: str
    """The queue whose pilot took it."""
    site: str
    """The site of that queue, to which its inputs come."""
    binding: Binding
    """``elastic`` or ``late``."""
    ahead: int
    """Jobs of its share that stood before it there."""
    staging: float
    """MB of its inputs that were still to come there."""
    ends_there: float
    """When it would have ended there, in s since 1970."""
    ends_here: float
    """When it was to end where it was taken, in s since 1970."""
    nothing_for: float = 0.0
    """s since anything had started there, by which the wait was predicted; 0 where jobs of its share ran."""
    reads: Mapping[str, float] = field(default_factory=dict)
    """MB/s that it reads over links, averaged over its run, by the site that they come from (E3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A waiting job as the pilots of another queue judge it."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    binding: Binding
    """``elastic`` or ``late``."""
    gain: float | None
    """s that it would end sooner there; none: it could not be read there."""
    needed: float
    """s of gain above which it is borrowed (E2)."""
    obstacle: str = ""
    """What keeps it from being taken, whatever it gains (E3); empty: nothing."""


def binding_of(
    spec: TaskSpec, owner: Identity, constants: BindingConstants, plugin: Binding | None = None
) -> Binding:
    """The binding of a task: what somebody said, else the federation's (E1)."""
    return said_binding(spec, owner, constants, plugin) or constants.default


def said_binding(
    spec: TaskSpec, owner: Identity, constants: BindingConstants, plugin: Binding | None
) -> Binding | None:
    """The binding that a task says, else its owner's VO, else its plugin; None where none of them does."""
    return spec.binding or constants.by_vo.get(owner.vo) or plugin
