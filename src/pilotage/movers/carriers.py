"""Services that carry files for us: adapters of the group ``pilotage.transfer_services``, by kind."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pilotage.model.records.federation import TransferService
from pilotage.model.records.observations import Fault
from pilotage.model.values.entry_point_groups import TRANSFER_SERVICES
from pilotage.ports import adapters
from pilotage.ports.moving import PER_VO, Delivery, Progress, StorageError

from .backend import StorageOptionError

Sign = Callable[[], None]
"""Told whenever the service answered for a file, also where no bytes moved."""


class CarrierError(StorageError):
    """A service did not bring a file: its words. ``fault`` is whom it blames, or empty: itself, or nobody."""

    def __init__(self, error: str, fault: Fault = "") -> None:
        super().__init__(error)
        self.fault = fault


class Carrier(Protocol):
    """An adapter, made with the URL and the options of a transfer service; a wrong one is a ValueError."""

    def carry(self, delivery: Delivery, progress: Progress, sign: Sign) -> str:
        """Have a file brought to a temporary name in the folder of its destination; returns its path there.

        Blocks. Raises CannotFetch, having done nothing, for storages that the service does not reach, and any
        other exception where it went wrong, CarrierError where it knows who is to blame: then nothing of this
        attempt goes on.
        """


def load(service: TransferService) -> Carrier:
    """Make the adapter of a service. Raises AdapterError where there is none, ValueError as it does."""
    carrier: Carrier = adapters.factory(TRANSFER_SERVICES, service.kind)(service.url, service.options)
    return carrier


def check(service: TransferService) -> None:
    """Raise ValueError where the URL or the options of a service are wrong, also those of one VO."""
    per_vo = service.options.get(PER_VO, {})
    if not isinstance(per_vo, Mapping) or not all(isinstance(one, Mapping) for one in per_vo.values()):
        raise StorageOptionError(f"{PER_VO}: must be options by the names of VOs")
    own: dict[str, Any] = {name: value for name, value in service.options.items() if name != PER_VO}
    made = adapters.factory(TRANSFER_SERVICES, service.kind)
    for more in ({}, *per_vo.values()):
        made(service.url, {**own, **more})
