"""Queues and shares as people see them: what the federation declares, with counts."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareView:
    """A share, with the number of its jobs and transfers in each state.

    Transfers are shared by a criterion of their own (D1): where that gives other names than the global
    shares', they stand in rows of their own, with a ``target`` of 0.
    """

    name: str
    vo: str = ""
    target: float = 0
    jobs: Mapping[JobState, int] = field(default_factory=dict)
    transfers: Mapping[TransferState, int] = field(default_factory=dict)
