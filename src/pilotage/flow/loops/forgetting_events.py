"""The deletion of events beyond the age in the settings, and of old notifications, a little at a time."""

from pilotage.flow.loops.sole import Pause, SoleLoop
from pilotage.ports.presence import Presence
from pilotage.store import Store

FORGET_EVENTS = "forget-events"
"""The name of the loop."""

PERIOD = 600.0
"""Seconds between two searches for old events."""

PAUSE = 0.5
"""Seconds between two batches, so that others write in between."""


KEPT_NOTIFICATIONS = 30 * 86400.0
"""Seconds for which notifications that were sent, or given up, are kept."""


def forgetting_events(store: Store, presence: Presence, age: float, archives: bool) -> SoleLoop:
    """Return the loop that deletes events after ``age`` seconds, and old notifications.

    A server that ``archives`` leaves notifications to its archive.
    """

    def work(pause: Pause) -> None:
        while store.event_retention.forget(store.clock() - age):
            if pause(PAUSE):
                return
        while not archives and store.event_retention.forget_notifications(store.clock() - KEPT_NOTIFICATIONS):
            if pause(PAUSE):
                return

    return SoleLoop(store, presence, FORGET_EVENTS, PERIOD, work)
