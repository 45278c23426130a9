"""Places that are paused because pilots failed there before they called home (P6)."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from pilotage.model.records.constants import DirectorConstants
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot


class LeftAlone(NamedTuple):
    """A paused place: failures in a row, and the end of its pause, in s since 1970."""

    times: int = 0
    until: float = 0.0


FINE = LeftAlone()


def after_failures(
    pilots: Iterable[Pilot], director: DirectorConstants, changed: float | None = None
) -> LeftAlone:
    """Return the pause of a server whose pilots failed before they called home, since one last called (P6).

    The pause is over if the queue's declaration changed at ``changed`` and no newer pilot has failed.
    """
    pilots = list(pilots)
    well = max((pilot.created for pilot in pilots if pilot.heartbeat is not None), default=-inf)
    # Count times, not pilots: pilots that failed in one pass of the loop are one failure of the place.
    failed = [
        pilot
        for pilot in pilots
        if pilot.state is PilotState.FAILED and pilot.heartbeat is None and pilot.created > well
    ]
    failures = {pilot.since for pilot in made_since(failed, changed)}
    if failures:
        return LeftAlone(len(failures), max(failures) + director.rest(len(failures)))
    return LeftAlone(1, changed) if failed and changed is not None else FINE


def made_since(pilots: Iterable[Pilot], changed: float | None) -> list[Pilot]:
    """Return the pilots made under their queue's current declaration."""
    return [pilot for pilot in pilots if changed is None or pilot.created > changed]
