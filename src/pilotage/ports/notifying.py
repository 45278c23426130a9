"""Sending notifications: the port, and the messages that pass through it."""

from dataclasses import dataclass
from typing import Protocol

from pilotage.model.records.notifications import NotificationLimits


class NotificationError(OSError):
    """A message was not taken. It is tried again."""


class NotificationRefused(NotificationError):
    """A message will never be taken, or may not be sent. It is not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationMessage:
    """News for one receiver, in one message.

    ``number`` is the same for each attempt with the same news. ``subject`` and ``text`` are for people,
    ``body`` is the same as JSON for programs. ``secret`` signs it for a webhook; empty: nothing signs it.
    """

    number: str
    receiver: str
    subject: str
    text: str
    body: bytes
    secret: str = ""


class NotificationSender(Protocol):
    """Sends messages. ``limits`` are the most within an hour."""

    limits: NotificationLimits

    def fault(self, receiver: str) -> str:
        """Return why this server never sends to a receiver; empty if it does. Makes no call outside."""

    def send(self, message: NotificationMessage) -> None:
        """Send a message. May block for ``LONGEST`` s. Raises ``NotificationError``."""


LONGEST = 30.0
"""Seconds after which a receiver without an answer is given up."""


class NoSender:
    """Sends nothing: for a Pilotage that is no server."""

    limits = NotificationLimits()

    def fault(self, receiver: str) -> str:  # noqa: ARG002
        """Refuse nothing: another server may send it."""
        return ""

    def send(self, message: NotificationMessage) -> None:  # noqa: ARG002
        """Raise."""
        raise NotificationError("this process sends nothing")
