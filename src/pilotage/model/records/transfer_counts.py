"""Live transfers, counted by the values that shares and limits use."""

from dataclasses import dataclass

from pilotage.model.records.states import TransferState
from pilotage.model.values.slot_parts import parts_of


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
