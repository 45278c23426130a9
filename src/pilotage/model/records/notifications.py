"""Notifications: what people want to hear about their tasks, and messages on their way to a receiver."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.records.life import LifeInAttempts
from pilotage.model.records.states import NotificationState
from pilotage.model.values.types import CLOSED, DESCRIBED, Name, RecordId, Settable

NoticeTopic = Literal["end", "failure", "held"]
"""News of a task: it ended, a first job failed for good, or it is held."""

NotificationTopic = NoticeTopic | Literal["test", "expiry"]
"""News of a task, a test, or that a token or certificate ends."""

TOPICS: tuple[NoticeTopic, ...] = ("end", "failure", "held")

HELD_TOLD = "held-told"
"""Replaces ``held`` in a task's ``notices`` from the news of a hold until its release."""

MOST_RECEIVERS = 5
"""Most receivers of one task, or of a person's settings."""

ReceiverKind = Literal["url", "command", "email"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """One receiver of notifications: a URL, a command on the server, or an e-mail address."""

    __pydantic_config__ = CLOSED

    url: Annotated[str, Field(max_length=1000)] = ""
    """A webhook, ``https://...``: it gets a signed POST request with JSON."""
    command: Name | Literal[""] = ""
    """A command that the server's operator allows by this name. It reads JSON from standard input."""
    email: Annotated[str, Field(max_length=254, pattern=r"^$|^[^\s@<>,;:\x00-\x1f\x7f]+@[A-Za-z0-9.-]+$")] = (
        ""
    )
    """An e-mail address."""
    on: Annotated[tuple[NoticeTopic, ...], Field(min_length=1, max_length=3)] = TOPICS
    """``end``: the task ended. ``failure``: its first job failed for good. ``held``: a person holds it."""

    @property
    def kinds(self) -> tuple[ReceiverKind, ...]:
        """Return the kinds of receivers that it names: there should be one."""
        named: dict[ReceiverKind, str] = {"url": self.url, "command": self.command, "email": self.email}
        return tuple(kind for kind, value in named.items() if value)

    @property
    def receiver(self) -> str:
        """Return the receiver as one text, ``url:https://...``."""
        return next((f"{kind}:{getattr(self, kind)}" for kind in self.kinds), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """A notification to create."""

    __pydantic_config__ = DESCRIBED

    task: RecordId
    """The task that it is about; 0: none."""
    topic: NotificationTopic
    """What happened."""
    receiver: str
    """Who gets it, ``KIND:ADDRESS``."""
    owner: str
    """The person who wants it."""
    vo: str
    """Their VO."""
    facts: str
    """The news, as JSON."""
    wake_at: Settable[float]
    """When it may be sent, in s since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification(NewNotification, LifeInAttempts):
    """A notification in its current state."""

    __pydantic_config__ = DESCRIBED

    state: NotificationState
    """Its state."""
    server: Settable[str] = ""
    """The process that sends it, or the last that did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationCount:
    """Notifications of a person that are not sent yet."""

    __pydantic_config__ = DESCRIBED

    owner: str
    """The person."""
    vo: str
    """Their VO."""
    waiting: int
    """Their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationLimits:
    """Most messages that begin within an hour. A message that is sent again counts once."""

    __pydantic_config__ = DESCRIBED

    per_address: int = 20
    """To one e-mail address or URL, from all persons together."""
    per_person: int = 60
    """Of one person, to all receivers together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentMessages:
    """Messages of a person to a receiver that began within the last hour."""

    __pydantic_config__ = DESCRIBED

    owner: str
    """The person."""
    vo: str
    """Their VO."""
    receiver: str
    """Who got them, ``KIND:ADDRESS``."""
    messages: int
    """Their number."""
    first: float
    """When the first of them began, in s since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSighting:
    """Result of one attempt to send a notification."""

    __pydantic_config__ = DESCRIBED

    notification: int
    """The notification."""
    attempt: int
    """The attempt that it is about."""
    error: str = ""
    """Why it was not sent; empty: it was."""
    refused: bool = False
    """Whether it would be refused again, so that it is not retried."""


def armed(notify: Iterable[Notify]) -> str:
    """Return a new task's ``notices``: the topics that its receivers want."""
    topics = {topic for settings in notify for topic in settings.on}
    return " ".join(topic for topic in TOPICS if topic in topics)
