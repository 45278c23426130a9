"""Queues and shares for people: the federation's declaration, with counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.records.federation import QueueStatus
from pilotage.model.records.states import JobState, PilotState, TransferState


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
