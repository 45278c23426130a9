"""Movers move bytes between storages: the port, and the one that speaks through fsspec."""

from .filesystems import FsspecMover
from .port import Delivered, Delivery, DeliveryFailed, Mover, Place, StorageError, order

__all__ = [
    "Delivered",
    "Delivery",
    "DeliveryFailed",
    "FsspecMover",
    "Mover",
    "Place",
    "StorageError",
    "order",
]
