"""Places that are left alone because pilots failed there before they called home (P6)."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from .constants import DirectorConstants
from .states import PilotState
from .work import Pilot


class LeftAlone(NamedTuple):
    """A place that is left alone: failures in a row, and the end of its rest, in s since 1970."""

    times: int = 0
    until: float = 0.0


FINE = LeftAlone()


def after_failures(pilots: Iterable[Pilot], director: DirectorConstants) -> LeftAlone:
    """The rest of a server whose pilots failed before they called home, since one did call (P6)."""
    pilots = list(pilots)
    well = max((pilot.created for pilot in pilots if pilot.heartbeat is not None), default=-inf)
    # Times and not pilots: those that failed in one pass of the loop are one failure of the place.
    failures = {
        pilot.since
        for pilot in pilots
        if pilot.state is PilotState.FAILED and pilot.heartbeat is None and pilot.created > well
    }
    if not failures:
        return FINE
    return LeftAlone(len(failures), max(failures) + director.rest(len(failures)))
