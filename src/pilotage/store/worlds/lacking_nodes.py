"""Circuit breakers of queues by what their nodes lack for the jobs that pilots were sent for (P12, B14)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import bindparam, select

from pilotage.model.circuit_breakers.empty_pilots import of_nodes
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.values.durations import DAY
from pilotage.store.database.rows import among
from pilotage.store.tables.pilots import is_lacking, pilots
from pilotage.store.worlds.parts import Reading, part

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
    """Read which queues' nodes lack what pilots of the last day were sent for.

    Pilots that found more there since count as well, and all that run there.
    """
    reader, world = reading.reader, reading.world
    lacking = reader.pilots(*_LACKING, after=world.time - DAY)
    if not lacking:
        return {}
    found = {one.id: one for one in (*lacking, *_others(reading, lacking))}
    breakers = of_nodes(found.values(), world.federation.director, reader.lifted_breakers())
    return {"lacking_nodes": breakers}


def _others(reading: Reading, lacking: Sequence[Pilot]) -> Iterator[Pilot]:
    """Yield other pilots of the same queues: those that run, and the newest ones that have called."""
    reader, first = reading.reader, {}
    for queue, own in groupby(sorted(lacking, key=attrgetter("queue", "id")), key=attrgetter("queue")):
        first[queue] = next(own).id
    for one in reading.live_pilots.read(reader.connection):
        if one.queue in first and one.state is PilotState.RUNNING:
            yield one
    for queue, id_ in first.items():
        rows = reader.raw_rows(_CALLED, queue=queue, first=id_, most=MOST_PILOTS)
        yield from reader.pilots(_BY_ID, ids=[number for (number,) in rows])
