"""Movers move bytes between storages: the port, and the one that speaks through fsspec."""

from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryFailed,
    Mover,
    Place,
    Progress,
    StorageError,
    order,
)

from .filesystems import cleanup, deliver, remove, scan

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
