"""Adapters that move bytes between storages, and scan and clear them."""

from functools import cache

from pilotage.model.federation import Storage
from pilotage.model.work import InputFile
from pilotage.ports.moving import Delivered, Delivery, DeliveryFailed, Progress, StorageError, order

from .streaming import Streaming

__all__ = [
    "Delivered",
    "Delivery",
    "DeliveryFailed",
    "Progress",
    "StorageError",
    "cleanup",
    "deliver",
    "order",
    "remove",
    "scan",
]


@cache
def _mover() -> Streaming:
    return Streaming(lambda: None)


def deliver(delivery: Delivery, progress: Progress) -> Delivered:
    """Copy one file and clear its scratch area."""
    return _mover().deliver(delivery, progress)


def cleanup(delivery: Delivery) -> None:
    """Done by :func:`deliver`."""


def scan(storage: Storage, glob: str) -> list[InputFile]:
    """List the files of a storage that match."""
    return _mover().scan(storage, glob)


def remove(storage: Storage, prefix: str) -> None:
    """Delete a folder of a storage's scratch area."""
    _mover().remove(storage, prefix)
