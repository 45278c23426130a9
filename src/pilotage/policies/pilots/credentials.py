"""Lifetimes of the credentials of pilots (P9)."""

from pilotage.model.records.constants import DirectorConstants
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot

LIFETIME = 5 * 86400.0
"""Lifetime of a pilot's credential in s, unless it is renewed (P9)."""

LEAVE = 3600.0
"""Seconds after its walltime during which a pilot may still deliver results."""


def enrolment_end(time: float, director: DirectorConstants) -> float:
    """Return the end of the token that a new pilot carries: after the director has given up the pilot
    (P4)."""
    return time + max(LIFETIME, director.max_pilot_waiting_hours * 3600 + LEAVE)


def is_due(time: float, expires: float | None) -> bool:
    """Return whether half of a credential's lifetime has passed, so that it needs renewal."""
    return expires is not None and expires - time < LIFETIME / 2


def renewed(time: float, pilot: Pilot) -> float:
    """Return the new end of a calling pilot's credential: in five days, or an hour after its walltime ends
    (P9)."""
    started = pilot.since if pilot.state is PilotState.RUNNING else time
    return min(time + LIFETIME, started + pilot.walltime + LEAVE)
