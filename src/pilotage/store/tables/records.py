"""The tables of records with states, by kind. Importing this module registers every table."""

import threading

from sqlalchemy import MetaData, Table

from pilotage.model.records.states import Kind
from pilotage.store.database.columns import LATER, metadata
from pilotage.store.tables import (
    counters,
    decisions,
    events,
    federations,
    files,
    history,
    last_seen,
    leases,
    logs,
    notification_settings,
    numbers,
    secrets,
    servers,
    set_aside,
    task_volumes,
    tokens,
)
from pilotage.store.tables.jobs import jobs
from pilotage.store.tables.notifications import notifications
from pilotage.store.tables.pilots import pilots
from pilotage.store.tables.publications import publications
from pilotage.store.tables.tasks import tasks
from pilotage.store.tables.transfers import transfers

__all__ = [
    "RECORDS",
    "counters",
    "decisions",
    "events",
    "federations",
    "files",
    "history",
    "last_seen",
    "leases",
    "logs",
    "notification_settings",
    "numbers",
    "secrets",
    "servers",
    "set_aside",
    "task_volumes",
    "tokens",
    "with_all_indexes",
]

RECORDS: dict[Kind, Table] = {
    "task": tasks,
    "job": jobs,
    "transfer": transfers,
    "pilot": pilots,
    "publication": publications,
    "notification": notifications,
}


_MAKING = threading.Lock()


def with_all_indexes() -> MetaData:
    """Return a store's tables with all their indexes, for creating or comparing them."""
    with _MAKING:
        while left := metadata.info[LATER]:
            left.pop(0)()
    return metadata
