"""Limits on messages that begin within an hour: by a person, and to an e-mail address or URL."""

from collections import Counter

from pilotage.model.documents.world import World
from pilotage.model.records.notifications import Notification
from pilotage.model.values.durations import HOUR

Person = tuple[str, str]
"""A VO, and the name of a person in it."""


class Allowance:
    """The messages that may still begin in this pass.

    A person who has sent nothing to an address within the hour may send it one message, even if others have
    reached the limit, so that one person cannot block the news of others. Commands of the operator have only
    the limit per person. Servers that decide at the same time may together exceed a limit by the messages of
    one pass.
    """

    def __init__(self, world: World) -> None:
        self._time, self._limits = world.time, world.notification_limits
        self._messages: Counter[Person | str | tuple[Person, str]] = Counter()
        self._first: dict[Person | str, float] = {}
        for message in world.recent_messages:
            self._count((message.vo, message.owner), message.receiver, message.messages, message.first)

    def limit(self, notification: Notification) -> tuple[str, float]:
        """Return why a message may not begin now, and until when, in s since 1970; empty if it may. The
        message starts with this ``notification``. A repeated message has been counted already."""
        person, address = (notification.vo, notification.owner), _address(notification.receiver)
        if notification.attempt > 1:
            return "", 0.0
        limit = self._limits.per_person
        if self._messages[person] >= limit:
            return f"the limit of {limit} messages within an hour to all your receivers", self._free(person)
        limit = self._limits.per_address
        if address and self._messages[address] >= limit and self._messages[person, address]:
            return f"the limit of {limit} messages within an hour to one address", self._free(address)
        return "", 0.0

    def take(self, notification: Notification) -> None:
        """Count a message, which starts with this ``notification``, unless it is a repeated one."""
        if notification.attempt == 1:
            self._count((notification.vo, notification.owner), notification.receiver, 1, self._time)

    def _count(self, person: Person, receiver: str, messages: int, first: float) -> None:
        address = _address(receiver)
        self._messages[person, address] += messages
        for key in (person, address):
            self._messages[key] += messages
            self._first[key] = min(first, self._first.get(key, first))

    def _free(self, key: Person | str) -> float:
        """Return when the first message of the hour ceases to count."""
        return self._first[key] + HOUR


def _address(receiver: str) -> str:
    """Return an e-mail address (in lower case) or a URL, to count by; empty for a command."""
    kind, _, address = receiver.partition(":")
    return address.lower() if kind == "email" else address if kind == "url" else ""
