"""Queues and shares for people: the federation's declaration, with counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pilotage.model.records.federation import QueueStatus
from pilotage.model.records.states import AT_A_PILOT, JobState, PilotState, TransferState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue, with the number of its jobs and pilots in each state."""

    name: str
    site: str
    status: QueueStatus
    cores: int
    max_memory: float
    max_walltime: float
    jobs: Mapping[JobState, int]
    pilots: Mapping[PilotState, int]
    restriction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareView:
    """A share, with the number of its jobs and transfers in each state.

    Transfers have their own criterion for shares (D1). If it gives other names than the global shares', they
    have separate rows with a ``target`` of 0.
    """

    name: str
    vo: str = ""
    target: float = 0
    jobs: Mapping[JobState, int] = field(default_factory=dict)
    transfers: Mapping[TransferState, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUse:
    """A share's running jobs as a fraction of all, next to its target as a fraction of all targets."""

    share: ShareView
    running: int
    used: float
    target: float

    @property
    def name(self) -> str:
        """Return the share's name."""
        return self.share.name


def share_uses(every: Sequence[ShareView]) -> list[ShareUse]:
    """Return shares that have a target or jobs, by what runs of them."""
    running = {one.name: sum(one.jobs.get(state, 0) for state in AT_A_PILOT) for one in every}
    whole = sum(running.values()) or 1
    targets = sum(one.target for one in every) or 1.0
    found = [
        ShareUse(
            share=one, running=running[one.name], used=running[one.name] / whole, target=one.target / targets
        )
        for one in every
        if one.target or one.jobs
    ]
    return sorted(found, key=lambda one: (-one.running, -one.target, one.name))
