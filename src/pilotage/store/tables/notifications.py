"""Notifications: their table, and their records."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Double, Index, String, Table, Text

from pilotage.model.records.notifications import Notification
from pilotage.model.records.states import LIVE_NOTIFICATIONS, NotificationState
from pilotage.store.database.columns import (
    Id,
    id_column,
    is_state,
    life_columns,
    metadata,
    partial_index,
    text_column,
)

notifications = Table(
    "notifications",
    metadata,
    id_column(),
    Column("task", Id, nullable=False),
    Column("topic", String, nullable=False),
    Column("receiver", String, nullable=False),
    text_column("owner"),
    text_column("vo"),
    Column("facts", Text, nullable=False),
    *life_columns(),
    Column("wake_at", Double, nullable=False),
    text_column("server"),
    text_column("history"),
    # When the message that begins with this one was first sent, in s since 1970.
    Column("message_at", Double),
    Index("notifications_by_task", "task", "id"),
    Index("notifications_by_owner", "vo", "owner", "id"),
    Index("notifications_by_state", "state", "since", "id"),
)

_n = notifications.c

is_unsent = is_state(notifications, *LIVE_NOTIFICATIONS)

# Sent ones only pile up.
partial_index("notifications_unsent", _n.vo, _n.owner, _n.id, _n.state, where=is_unsent)
partial_index("notifications_by_message", _n.message_at, where=_n.message_at.is_not(None))

NOTIFICATION_COLUMNS = (
    *(_n.id, _n.task, _n.topic, _n.receiver, _n.owner, _n.vo, _n.facts, _n.state, _n.attempt),
    *(_n.created, _n.since, _n.wake_at, _n.error, _n.server),
)
_NAMES = tuple(column.name for column in NOTIFICATION_COLUMNS)


def notification(row: Sequence[Any]) -> Notification:
    """Make a notification of a row that begins with :data:`NOTIFICATION_COLUMNS`."""
    values = dict(zip(_NAMES, row, strict=False))
    return Notification(**{**values, "state": NotificationState(values["state"])})
