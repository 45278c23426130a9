"""Events of circuit breakers: what opened, became half-open or closed."""

from pilotage.flow.calls import circuit_breakers
from pilotage.flow.runtime import Runtime
from pilotage.ports.presence import Presence

from .sole import Pause, SoleLoop

NOTE_BREAKERS = "note-breakers"
"""The name of the loop, and who its events are by."""

PERIOD = 10.0
"""Seconds between two looks. An operator who lifts a breaker makes its event at once."""


def noting_breakers(runtime: Runtime, presence: Presence) -> SoleLoop:
    """Return the loop that makes events of the changes of circuit breakers."""

    def work(_: Pause) -> None:
        circuit_breakers.note(runtime, NOTE_BREAKERS)

    return SoleLoop(runtime.store, presence, NOTE_BREAKERS, PERIOD, work)
