"""What the house remembers: tables, migrations, snapshots and the one commit, on SQLite and PostgreSQL."""

from .errors import (
    FederationRenamed,
    FileConflict,
    IllegalColumn,
    IllegalTransition,
    NewerStore,
    NoFederation,
    StoreError,
)
from .store import Store

__all__ = [
    "FederationRenamed",
    "FileConflict",
    "IllegalColumn",
    "IllegalTransition",
    "NewerStore",
    "NoFederation",
    "Store",
    "StoreError",
]
