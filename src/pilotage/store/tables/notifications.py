"""Notifications: their table, and their records."""

from sqlalchemy import Column, Double, Index

from pilotage.model.records.notifications import Notification
from pilotage.model.records.states import LIVE_NOTIFICATIONS
from pilotage.store.database.columns import is_state, partial_index
from pilotage.store.database.record_columns import SETTABLE, maker, read_columns, record_table

notifications = record_table(
    "notifications",
    Notification,
    # When the message that begins with this one was first sent, in s since 1970.
    Column("message_at", Double, info=SETTABLE),
    Index("notifications_by_task", "task", "id"),
    Index("notifications_by_owner", "vo", "owner", "id"),
    Index("notifications_by_state", "state", "since", "id"),
)

_n = notifications.c

is_unsent = is_state(notifications, *LIVE_NOTIFICATIONS)

# Sent ones only pile up.
partial_index("notifications_unsent", _n.vo, _n.owner, _n.id, _n.state, where=is_unsent)
partial_index("notifications_by_message", _n.message_at, where=_n.message_at.is_not(None))

NOTIFICATION_COLUMNS = read_columns(notifications, Notification)
notification = maker(Notification)
"""Makes a notification of a row that begins with ``NOTIFICATION_COLUMNS``."""
