"""The tables of records with states, by kind. Importing this module registers every table."""

import threading

from sqlalchemy import MetaData, Table

from pilotage.model.records.states import Kind
from pilotage.store.audit import table as audit
from pilotage.store.database import table_form
from pilotage.store.database.columns import LATER, metadata
from pilotage.store.files import table as file_rows
from pilotage.store.files.publications import publications
from pilotage.store.history import decisions, events, history, numbers
from pilotage.store.jobs import counters, logs
from pilotage.store.jobs.table import jobs
from pilotage.store.people import notification_settings, secrets, tokens
from pilotage.store.people.notifications import notifications
from pilotage.store.pilots.table import pilots
from pilotage.store.queues import federations, last_seen
from pilotage.store.servers import servers, set_aside
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import tasks
from pilotage.store.transfers.table import transfers

__all__ = [
    "RECORDS",
    "audit",
    "counters",
    "decisions",
    "events",
    "federations",
    "file_rows",
    "history",
    "last_seen",
    "logs",
    "notification_settings",
    "numbers",
    "secrets",
    "servers",
    "set_aside",
    "table_form",
    "task_rows",
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
        while remaining := metadata.info[LATER]:
            remaining.pop(0)()
    return metadata
