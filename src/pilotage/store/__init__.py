"""What the house remembers: tables, migrations, snapshots and the one commit, on SQLite and PostgreSQL."""

from .errors import (
    FileConflict,
    IllegalColumn,
    IllegalTransition,
    NewerStore,
    NoFederation,
    StoreError,
)
from .store import Store

__all__ = [
    "FileConflict",
    "IllegalColumn",
    "IllegalTransition",
    "NewerStore",
    "NoFederation",
    "Store",
    "StoreError",
]
