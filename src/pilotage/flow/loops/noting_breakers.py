"""Events of circuit breakers: what opened, became half-open or closed."""

from collections.abc import Callable

from pilotage.flow.loops.sole import Pause, SoleLoop
from pilotage.ports.presence import Presence
from pilotage.store import Store

NOTE_BREAKERS = "note-breakers"
"""The name of the loop, and who its events are by."""

PERIOD = 10.0
"""Seconds between two looks. An operator who lifts a breaker makes its event at once."""


def noting_breakers(store: Store, presence: Presence, note: Callable[[str], None]) -> SoleLoop:
    """Return the loop that makes events of the changes of circuit breakers: ``note`` looks for them."""

    def work(_: Pause) -> None:
        note(NOTE_BREAKERS)

    return SoleLoop(store, presence, NOTE_BREAKERS, PERIOD, work)
