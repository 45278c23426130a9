"""Pilots: table and rows."""

from functools import lru_cache

from sqlalchemy import Column, Double, Index, literal_column

from pilotage.model.records.work import Pilot
from pilotage.store.database.columns import partial_index
from pilotage.store.database.record_columns import SETTABLE, maker, read_columns, record_table

pilots = record_table(
    "pilots",
    Pilot,
    Column("ended", Double, info=SETTABLE),
    Index("pilots_by_state", "state", "since", "id"),
    Index("pilots_by_queue", "queue", "id"),
)

is_lacking = pilots.c.lacks != literal_column("''")
"""Few pilots find that their nodes lack something."""
partial_index("pilots_lacking", pilots.c.since, pilots.c.id, where=is_lacking)

PILOT_COLUMNS = read_columns(pilots, Pilot)

# Loops read all live pilots again and again, and few have changed: convert a row once.
pilot = lru_cache(maxsize=20_000)(maker(Pilot))
"""Makes a pilot of a row of ``PILOT_COLUMNS``."""
