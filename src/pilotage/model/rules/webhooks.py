"""Masked webhooks. The whole address of a webhook is a secret, because it is enough to post there."""

from dataclasses import replace
from hashlib import sha256
from urllib.parse import urlsplit

from pilotage.model.documents.world import World
from pilotage.model.records.notifications import Notify
from pilotage.model.records.spec import TaskSpec

DIGITS = 12
"""Digits of a hash that tell the webhooks of one host apart."""


def masked(url: str) -> str:
    """Return a webhook's scheme and host, and a hash of all of it: equal addresses stay equal."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/{sha256(url.encode()).hexdigest()[:DIGITS]}"


def without_webhooks(world: World) -> World:
    """Return a world with masked webhooks. Decisions about it stay the same."""
    return replace(
        world,
        tasks=tuple(
            replace(task, spec=of_spec(task.spec)) if task.spec.notify else task for task in world.tasks
        ),
        notifications=tuple(
            replace(notification, receiver=of_receiver(notification.receiver))
            for notification in world.notifications
        ),
        recent_messages=tuple(
            replace(recent, receiver=of_receiver(recent.receiver)) for recent in world.recent_messages
        ),
    )


def of_spec(spec: TaskSpec) -> TaskSpec:
    """Return a task's specification with masked webhooks."""
    return replace(spec, notify=tuple(map(_of_notify, spec.notify)))


def _of_notify(notify: Notify) -> Notify:
    return replace(notify, url=masked(notify.url)) if notify.url else notify


def of_receiver(receiver: str) -> str:
    """Return a receiver, ``KIND:ADDRESS``, with a masked webhook."""
    kind, _, address = receiver.partition(":")
    return f"url:{masked(address)}" if kind == "url" else receiver
