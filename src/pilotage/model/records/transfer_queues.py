"""The three queues of transfers, each with its own slots: preparing, delivering and finishing (D8)."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.states import TransferState

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
