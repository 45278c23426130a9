"""The tables of the records that have states, by kind; importing this module makes every table known."""

from sqlalchemy import Table

from pilotage.model.states import Kind

from . import counters, decisions, federations, files, history, last_seen, logs, numbers, tokens
from .columns import metadata
from .jobs import jobs
from .pilots import pilots
from .publications import publications
from .tasks import tasks
from .transfers import transfers

__all__ = [
    "RECORDS",
    "counters",
    "decisions",
    "federations",
    "files",
    "history",
    "last_seen",
    "logs",
    "metadata",
    "numbers",
    "tokens",
]

RECORDS: dict[Kind, Table] = {
    "task": tasks,
    "job": jobs,
    "transfer": transfers,
    "pilot": pilots,
    "publication": publications,
}
