"""Requests about notifications: the sent ones, a person's own receivers, and the secret of webhooks."""

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.client.records import Record, Table
from pilotage.client.shapes import NOTIFICATION, RECEIVERS

from .api import AsyncApi


class AsyncNotificationRequests(AsyncApi):
    """Notifications of the caller's tasks."""

    async def notifications(
        self, *, task: int = 0, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return the newest notifications with their state, of one task or of all (0)."""
        return await self._table(
            "notifications", "/notifications", NOTIFICATION, task=task, after=after, limit=limit
        )

    async def notification_settings(self) -> Record:
        """Return the caller's own receivers, and when the secret of their webhooks was made."""
        return await self._record("/notifications/settings", RECEIVERS)

    async def set_notifications(self, notify: Sequence[Mapping[str, Any]]) -> Record:
        """Replace the caller's own receivers, as a task's ``notify`` has them."""
        body = {"notify": [dict(receiver) for receiver in notify]}
        return await self._sent("PUT", "/notifications/settings", RECEIVERS, body=body)

    async def make_webhook_secret(self) -> str:
        """Make and return a new secret, which signs the caller's webhooks. It is not shown again."""
        return str((await self._posted("/notifications/secret", {"secret": str}, needs=["secret"]))["secret"])

    async def test_notifications(self, notify: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Send a test to receivers, or to the caller's own ones. Return the numbers of its notifications."""
        body = {"notify": [dict(receiver) for receiver in notify]}
        return list(
            (await self._posted("/notifications/test", {"ids": [int]}, None, body, needs=["ids"]))["ids"]
        )
