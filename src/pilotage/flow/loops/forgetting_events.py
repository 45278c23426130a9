"""The deletion of events that are older than a setting says, a little at a time."""

from pilotage.ports.presence import Presence
from pilotage.store import Store

from .sole import Pause, SoleLoop

FORGET_EVENTS = "forget-events"
"""The name of the loop."""

PERIOD = 600.0
"""Seconds between two searches for old events."""

PAUSE = 0.5
"""Seconds between two batches, so that others write in between."""


def forgetting_events(store: Store, presence: Presence, age: float) -> SoleLoop:
    """Return the loop that deletes events after ``age`` seconds."""

    def work(pause: Pause) -> None:
        while store.event_retention.forget(store.clock() - age):
            if pause(PAUSE):
                return

    return SoleLoop(store, presence, FORGET_EVENTS, PERIOD, work)
