"""What trips the circuit breakers of servers: pilots fail there before they call home (P6)."""

from collections.abc import Iterable
from math import inf

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, FailedBatch, Tripped, each_opens
from pilotage.model.records.constants import DirectorConstants
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot


def server_breaker(
    place: tuple[str, str],
    pilots: Iterable[Pilot],
    director: DirectorConstants,
    changed: float | None = None,
    lifted: float = -inf,
) -> CircuitBreaker | None:
    """Return the breaker of a server where pilots failed before they called home, since one did call (P6).

    A pilot that calls closes it, if the pilot was made or began to run after the failures. The breaker is
    half-open if its queue was declared again at ``changed`` and no pilot made since has failed. Pilots made
    before it was ``lifted`` do not count.
    """
    pilots = list(pilots)
    well = max((pilot.created for pilot in pilots if pilot.heartbeat is not None), default=-inf)
    began = begun(pilots)
    failed = [
        pilot
        for pilot in pilots
        if pilot.state is PilotState.FAILED
        and pilot.heartbeat is None
        and pilot.created > well
        and pilot.since > began
        and pilot.created > lifted
    ]
    if not failed:
        return None
    # Count times, not pilots: pilots that failed in one pass of the loop are one failure of the place.
    ends = [
        FailedBatch(pilot.since, pilot.since, pilot.error.partition("\n")[0])
        for pilot in made_since(failed, changed)
    ]
    tripped = each_opens(ends, director.open_for)
    if tripped is None:
        last = max(failed, key=lambda pilot: pilot.since)
        return Tripped(1, 1, None, changed or 0.0, changed or 0.0).breaker("server", place, last.error)
    return tripped.breaker("server", place, tripped.last.error if tripped.last else "")


def begun(pilots: Iterable[Pilot]) -> float:
    """Return when the newest of the running pilots first called; minus infinity if none runs."""
    return max((pilot.since for pilot in pilots if pilot.state is PilotState.RUNNING), default=-inf)


def made_since(pilots: Iterable[Pilot], changed: float | None) -> list[Pilot]:
    """Return the pilots made since their queue's declaration last changed."""
    return [pilot for pilot in pilots if changed is None or pilot.created > changed]
