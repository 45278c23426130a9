"""Movers move bytes between storages: the port, and the one that speaks through fsspec."""

from .filesystems import cleanup, deliver, remove, scan
from .port import Delivered, Delivery, DeliveryFailed, Mover, Place, Progress, StorageError, order

__all__ = [
    "Delivered",
    "Delivery",
    "DeliveryFailed",
    "Mover",
    "Place",
    "Progress",
    "StorageError",
    "cleanup",
    "deliver",
    "order",
    "remove",
    "scan",
]
