"""Transfers: table, indexes for staging's queries, and rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, Column, Double, Index, Integer, String, Table

from pilotage.model.records.states import UNFINISHED_TRANSFERS, TransferState
from pilotage.model.records.work import Transfer
from pilotage.store.database.columns import (
    id_column,
    index_later,
    is_state,
    life_columns,
    metadata,
    partial_index,
    text_column,
)

transfers = Table(
    "transfers",
    metadata,
    id_column(),
    Column("file", String, nullable=False),
    Column("source", String, nullable=False),
    text_column("source_path"),
    Column("destination", String, nullable=False),
    Column("direction", String, nullable=False),
    text_column("share"),
    Column("priority", Integer, nullable=False),
    *life_columns(),
    Column("emergency", Boolean, nullable=False),
    Column("wake_at", Double),
    Column("heartbeat", Double),
    Column("started", Double),
    Column("ended", Double),
    text_column("history"),
    Column("share_priority", Integer, nullable=False, server_default="0"),
    text_column("server"),
    text_column("size_class"),
    text_column("way"),
    text_column("fault"),
    Index("transfers_by_state", "state", "since", "id"),
)

_x = transfers.c

# PostgreSQL keeps a hash of each name, a third of the size. Nobody asks for these names in order.
index_later(lambda: Index("transfers_by_file", _x.file, postgresql_using="hash"))

partial_index(
    "transfers_to_start",
    *(_x.share, _x.direction, _x.priority.desc(), _x.id),
    where=is_state(transfers, TransferState.QUEUED),
)
partial_index(
    "transfers_longest_queued",
    *(_x.share, _x.direction, _x.priority, _x.since, _x.id),
    where=is_state(transfers, TransferState.QUEUED),
)
partial_index(
    "transfers_once",
    *(_x.file, _x.destination),
    unique=True,
    where=is_state(transfers, *UNFINISHED_TRANSFERS),
)

TRANSFER_COLUMNS = (
    *(_x.id, _x.file, _x.source, _x.destination, _x.direction, _x.share, _x.priority, _x.state),
    *(
        _x.attempt,
        _x.created,
        _x.since,
        _x.source_path,
        _x.emergency,
        _x.wake_at,
        _x.heartbeat,
        _x.error,
        _x.server,
        _x.size_class,
        _x.way,
        _x.fault,
    ),
)
_STATES = {str(state): state for state in TransferState}


def transfer(row: Sequence[Any]) -> Transfer:
    """Make a transfer of a row of :data:`TRANSFER_COLUMNS`."""
    return Transfer(
        id=row[0],
        file=row[1],
        source=row[2],
        destination=row[3],
        direction=row[4],
        share=row[5],
        priority=row[6],
        state=_STATES[row[7]],
        attempt=row[8],
        created=row[9],
        since=row[10],
        source_path=row[11],
        emergency=bool(row[12]),
        wake_at=row[13],
        heartbeat=row[14],
        error=row[15],
        server=row[16],
        size_class=row[17],
        way=row[18],
        fault=row[19],
    )
