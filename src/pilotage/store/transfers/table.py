"""Transfers: table, indexes for staging's queries, and rows."""

from sqlalchemy import Column, Double, Index

from pilotage.model.records.states import UNFINISHED_TRANSFERS, TransferState
from pilotage.model.records.work import Transfer
from pilotage.store.database.columns import index_later, is_state, partial_index
from pilotage.store.database.record_columns import SETTABLE, maker, read_columns, record_table

transfers = record_table(
    "transfers",
    Transfer,
    Column("started", Double, info=SETTABLE),
    Column("ended", Double, info=SETTABLE),
    Index("transfers_by_state", "state", "since", "id"),
)

_x = transfers.c

# Use a hash index on PostgreSQL: it has a third of the size, and no query needs these names in order.
index_later(lambda: Index("transfers_by_file", _x.file, postgresql_using="hash"))

partial_index(
    "transfers_to_start",
    *(_x.share, _x.direction, _x.priority.desc(), _x.id),
    condition=is_state(transfers, TransferState.QUEUED),
)
partial_index(
    "transfers_longest_queued",
    *(_x.share, _x.direction, _x.priority, _x.since, _x.id),
    condition=is_state(transfers, TransferState.QUEUED),
)
partial_index(
    "transfers_once",
    *(_x.file, _x.destination),
    unique=True,
    condition=is_state(transfers, *UNFINISHED_TRANSFERS),
)

TRANSFER_COLUMNS = read_columns(transfers, Transfer)
transfer = maker(Transfer)
"""Makes a transfer of a row that begins with ``TRANSFER_COLUMNS``."""
