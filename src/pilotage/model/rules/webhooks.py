"""Webhooks without their secrets: whoever knows the whole address can post to it."""

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
    """Return a world in which no webhook's address can be used. Decisions about it stay the same."""
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
    """Return what was asked for, with no webhook's whole address."""
    return replace(spec, notify=tuple(map(_of_notify, spec.notify)))


def _of_notify(notify: Notify) -> Notify:
    return replace(notify, url=masked(notify.url)) if notify.url else notify


def of_receiver(receiver: str) -> str:
    """Return a receiver, ``KIND:ADDRESS``, without a webhook's whole address."""
    kind, _, address = receiver.partition(":")
    return f"url:{masked(address)}" if kind == "url" else receiver
