"""Reads of pilots for the director and brokerages alone: ended pilots, and nodes' deficits (P12, B14)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import bindparam, func, or_, select

from pilotage.model.circuit_breakers.empty_pilots import is_empty, of_nodes
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.values.durations import DAY
from pilotage.store.database.columns import is_state
from pilotage.store.database.rows import among
from pilotage.store.pilots.table import is_lacking, pilots
from pilotage.store.worlds.parts import Reading, part

ENDED_LATELY = 3600.0
"""Seconds after its end for which the director considers a pilot."""

_ENDED = (
    is_state(pilots, *(state for state in PilotState if state not in LIVE_PILOTS)),
    pilots.c.since > bindparam("after"),
)
_LIVE_THERE = (is_state(pilots, *LIVE_PILOTS), among(pilots.c.queue, "queues"))
_NEWEST_CALLED = (
    select(func.max(pilots.c.id))
    .where(
        is_state(pilots, PilotState.FINISHED),
        pilots.c.since > bindparam("after"),
        pilots.c.heartbeat.is_not(None),
        pilots.c.reference != "",
    )
    .group_by(pilots.c.queue, pilots.c.broker, pilots.c.credential)
)
_ENDED_OTHERWISE = (*_ENDED, or_(pilots.c.state != str(PilotState.FINISHED), pilots.c.reference == ""))


@part("pilots")
def live_and_ended_pilots(reading: Reading) -> Mapping[str, Any]:
    """Read live pilots, and pilots that ended in the last hour and still count.

    For the policy ``balanced`` all count (P12). For the other policy, a pilot counts if it ended without a
    goodbye (P6), or before the answer to its submission came: that may still come. The newest pilot of each
    server that called counts too, because it closes the server's circuit breaker.
    """
    live, lately = reading.live_pilots.read(reading.reader.connection), _ended_lately(reading)
    return {"pilots": tuple(sorted([*live, *lately], key=lambda pilot: pilot.id))}


@part("pilots")
def pilots_that_trip(reading: Reading) -> Mapping[str, Any]:
    """Read the pilots of the last hour at queues where one failed, or ended without work: only there a
    circuit breaker may be open (P6, P12)."""
    lately = _ended_lately(reading)
    queues = {pilot.queue for pilot in lately if pilot.state is PilotState.FAILED or is_empty(pilot)}
    live = reading.reader.pilots(*_LIVE_THERE, queues=sorted(queues)) if queues else ()
    there = [*live, *(pilot for pilot in lately if pilot.queue in queues)]
    return {"pilots": tuple(sorted(there, key=lambda pilot: pilot.id))}


def _ended_lately(reading: Reading) -> Sequence[Pilot]:
    every = reading.world.federation.director.policy == "balanced"
    after = reading.world.time - ENDED_LATELY
    lately = reading.reader.pilots(*(_ENDED if every else _ENDED_OTHERWISE), after=after)
    if not every and any(pilot.state is PilotState.FAILED for pilot in lately):
        newest = [id_ for (id_,) in reading.reader.raw_rows(_NEWEST_CALLED, after=after)]
        lately = (*lately, *reading.reader.pilots(among(pilots.c.id, "ids"), ids=newest))
    return lately


@part("advertisements")
def bounding_advertisements(reading: Reading) -> Mapping[str, Any]:
    """Read the advertisements of sites with limits, and all advertisements that sites sent."""
    return {"advertisements": reading.reader.bounding_advertisements(reading.world.federation.sites)}


MOST_PILOTS = 1000
"""Newest pilots of a queue, since the first that lacked something, among which is one that has it."""

_p = pilots.c

_LACKING = (is_lacking, _p.since > bindparam("after"))
_CALLED = (
    select(_p.id)
    .where(_p.queue == bindparam("queue"), _p.id > bindparam("first"), _p.heartbeat.is_not(None))
    .order_by(_p.id.desc())
    .limit(bindparam("most"))
)
_BY_ID = among(_p.id, "ids")


@part("lacking_nodes")
def lacking_nodes(reading: Reading) -> Mapping[str, Any]:
    """Read the pilots of the last day that found too little for their jobs at a queue's nodes.

    Read also later pilots that found more there, and all that run there.
    """
    reader, world = reading.reader, reading.world
    lacking = reader.pilots(*_LACKING, after=world.time - DAY)
    if not lacking:
        return {}
    by_id = {pilot.id: pilot for pilot in (*lacking, *_pilots_there(reading, lacking))}
    breakers = of_nodes(by_id.values(), world.federation.director, reader.lifted_breakers())
    return {"lacking_nodes": breakers}


def _pilots_there(reading: Reading, lacking: Sequence[Pilot]) -> Iterator[Pilot]:
    """Yield other pilots of the same queues: all that run, and the newest that have called."""
    reader, first = reading.reader, {}
    for queue, group in groupby(sorted(lacking, key=attrgetter("queue", "id")), key=attrgetter("queue")):
        first[queue] = next(group).id
    for pilot in reading.live_pilots.read(reader.connection):
        if pilot.queue in first and pilot.state is PilotState.RUNNING:
            yield pilot
    for queue, id_ in first.items():
        rows = reader.raw_rows(_CALLED, queue=queue, first=id_, most=MOST_PILOTS)
        yield from reader.pilots(_BY_ID, ids=[number for (number,) in rows])
