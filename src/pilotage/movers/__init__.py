"""Adapters that move bytes between storages, and scan and clear them."""

from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryFailed,
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
    "Place",
    "Progress",
    "StorageError",
    "cleanup",
    "deliver",
    "order",
    "remove",
    "scan",
]
