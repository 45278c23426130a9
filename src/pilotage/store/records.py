"""The tables of the records that have states, by kind; importing this module makes every table known."""

from sqlalchemy import Table

from pilotage.model.states import Kind

from . import counters, decisions, events, federations, files, last_seen, logs, tokens
from .columns import metadata
from .jobs import jobs
from .pilots import pilots
from .tasks import tasks
from .transfers import transfers

__all__ = [
    "RECORDS",
    "counters",
    "decisions",
    "events",
    "federations",
    "files",
    "last_seen",
    "logs",
    "metadata",
    "tokens",
]

RECORDS: dict[Kind, Table] = {"task": tasks, "job": jobs, "transfer": transfers, "pilot": pilots}
