# Written by `make docs` from ../_async; do not edit.
"""Requests about notifications: the sent ones, a person's own receivers, and the secret of webhooks."""

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.client.records import Record, Table

from .api import Api


class NotificationRequests(Api):
    """Notifications of the caller's tasks."""

    def notifications(self, *, task: int = 0, after: str | None = None, limit: int = 100) -> Table[Record]:
        """Return the newest notifications with their state, of one task or of all (0)."""
        return self._table("notifications", "/notifications", task=task, after=after, limit=limit)

    def notification_settings(self) -> Record:
        """Return the caller's own receivers, and when the secret of their webhooks was made."""
        return self._record("/notifications/settings")

    def set_notifications(self, notify: Sequence[Mapping[str, Any]]) -> Record:
        """Replace the caller's own receivers, as a task's ``notify`` has them."""
        body = {"notify": [dict(one) for one in notify]}
        return self._sent("PUT", "/notifications/settings", body=body)

    def make_webhook_secret(self) -> str:
        """Make and return a new secret, which signs the caller's webhooks. It is not shown again."""
        return str((self._posted("/notifications/secret", needs=["secret"]))["secret"])

    def test_notifications(self, notify: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Send a test to receivers, or to the caller's own ones. Return the numbers of its notifications."""
        body = {"notify": [dict(one) for one in notify]}
        return list((self._posted("/notifications/test", None, body, needs=["ids"]))["ids"])
