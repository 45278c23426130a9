"""The three queues of transfers, each with slots: preparing, delivering, finishing (D8); their counts."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.states import TransferState
from pilotage.model.values.slot_parts import parts_of

QueueName = Literal["preparing", "delivering", "finishing"]


@dataclass(frozen=True, slots=True)
class TransferQueue:
    """Transfers wait for a slot in one state, and have it in the next."""

    name: QueueName
    waiting: TransferState
    holding: TransferState

    def slots(self, constants: StagingConstants) -> int:
        """Return the number of slots, without emergencies."""
        match self.name:
            case "preparing":
                return constants.preparing_slots
            case "delivering":
                return constants.delivery_slots
            case "finishing":
                return constants.finishing_slots


PREPARING = TransferQueue("preparing", TransferState.QUEUED, TransferState.PREPARING)
DELIVERING = TransferQueue("delivering", TransferState.PREPARED, TransferState.DELIVERING)
FINISHING = TransferQueue("finishing", TransferState.DELIVERED, TransferState.FINISHING)

TRANSFER_QUEUES = (PREPARING, DELIVERING, FINISHING)
"""In the order in which a transfer passes through them."""


def queue_of(state: TransferState) -> TransferQueue | None:
    """Return the queue where a transfer in this state waits; None if it waits in none."""
    return next((queue for queue in TRANSFER_QUEUES if queue.waiting is state), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCount:
    """The number of live transfers with one share, way, state and class of size."""

    share: str
    source: str
    destination: str
    state: TransferState
    size_class: str
    emergency: bool
    transfers: int

    def slots(self, bundle: int) -> float:
        """Return the slots that all of them take together. A slot holds a ``bundle`` of small files."""
        return self.transfers * parts_of(self.size_class, bundle) / bundle
