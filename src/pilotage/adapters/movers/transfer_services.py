"""Transfer services: adapters of the group ``pilotage.transfer_services``, by kind."""

from collections.abc import Callable
from typing import Protocol

from pilotage.adapters.movers.storages.backend import option_sets
from pilotage.model.records.federation import TransferService
from pilotage.model.records.observations import Fault
from pilotage.model.values.entry_point_groups import TRANSFER_SERVICES
from pilotage.ports import adapters
from pilotage.ports.moving import Delivery, Progress, StorageError

Sign = Callable[[], None]
"""Called whenever the service answered about a file, even if no bytes moved."""


class TransferServiceError(StorageError):
    """A service failed to deliver a file; the message is its own.

    ``fault`` is who is to blame according to the service; empty: itself, or no one.
    """

    def __init__(self, error: str, fault: Fault = "") -> None:
        super().__init__(error)
        self.fault = fault


class ServiceAdapter(Protocol):
    """An adapter, made with a transfer service's URL and options. It raises ValueError for wrong ones."""

    def carry(self, delivery: Delivery, progress: Progress, sign: Sign) -> str:
        """Let the service copy a file to a temporary name in its destination folder. Return its path there.

        Blocks. Raises CannotFetch, without having done anything, if the service cannot reach these storages.
        Raises TransferServiceError if it knows who is to blame, and any other exception for other failures.
        After these, the service does nothing more for this attempt.
        """


def load(service: TransferService) -> ServiceAdapter:
    """Make the adapter of a service. Raises AdapterError if there is none, and the adapter's ValueError."""
    adapter: ServiceAdapter = adapters.factory(TRANSFER_SERVICES, service.kind)(service.url, service.options)
    return adapter


def check(service: TransferService) -> None:
    """Raise ValueError if the URL or the options of a service are wrong, also the options for one VO."""
    factory = adapters.factory(TRANSFER_SERVICES, service.kind)
    for options in option_sets(service.options):
        factory(service.url, options)
