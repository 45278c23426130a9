"""What only the director reads: recently ended pilots, and limits of other sites."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, func, or_, select

from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.tables.pilots import pilots
from pilotage.store.worlds.parts import Reading, part

ENDED_LATELY = 3600.0
"""Seconds after its end for which the director considers a pilot."""

_ENDED = (
    is_state(pilots, *(state for state in PilotState if state not in LIVE_PILOTS)),
    pilots.c.since > bindparam("after"),
)
_NEWEST_CALLED = (
    select(func.max(pilots.c.id))
    .where(
        is_state(pilots, PilotState.FINISHED),
        pilots.c.since > bindparam("after"),
        pilots.c.heartbeat.is_not(None),
        pilots.c.reference != "",
    )
    .group_by(pilots.c.queue, pilots.c.broker)
)
_ENDED_OTHERWISE = (*_ENDED, or_(pilots.c.state != str(PilotState.FINISHED), pilots.c.reference == ""))


@part("pilots")
def live_and_ended_pilots(reading: Reading) -> Mapping[str, Any]:
    """Read live pilots, and those ended in the last hour that still count.

    For the policy ``balanced`` all count (P12). For the other one, those count that did not say goodbye (P6),
    or that ended before their submission was known: its answer may still come. Besides, the newest of each
    server that called counts: it closes the server's circuit breaker.
    """
    every = reading.world.federation.director.policy == "balanced"
    after = reading.world.time - ENDED_LATELY
    lately = reading.reader.pilots(*(_ENDED if every else _ENDED_OTHERWISE), after=after)
    if not every and any(one.state is PilotState.FAILED for one in lately):
        newest = [id_ for (id_,) in reading.reader.raw_rows(_NEWEST_CALLED, after=after)]
        lately = (*lately, *reading.reader.pilots(among(pilots.c.id, "ids"), ids=newest))
    live = reading.live_pilots.read(reading.reader.connection)
    return {"pilots": tuple(sorted([*live, *lately], key=lambda pilot: pilot.id))}


@part("advertisements")
def bounding_advertisements(reading: Reading) -> Mapping[str, Any]:
    """Read the advertisements that limit sites: those of sites with limits, and all that sites sent."""
    return {"advertisements": reading.reader.bounding_advertisements(reading.world.federation.sites)}
