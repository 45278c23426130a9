"""Pilots: table and rows."""

from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Double, Index, Integer, String, Table

from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.values.identity import Identity
from pilotage.store.database.columns import id_column, life_columns, metadata, owner_columns, text_column

pilots = Table(
    "pilots",
    metadata,
    id_column(),
    Column("queue", String, nullable=False),
    text_column("requirements"),
    Column("kind", String, nullable=False),
    *owner_columns(),
    *life_columns(),
    Column("cores", Integer, nullable=False),
    Column("memory", Double, nullable=False),
    Column("walltime", Double, nullable=False),
    text_column("reference"),
    Column("heartbeat", Double),
    Column("matched", Integer, nullable=False),
    Column("ended", Double),
    text_column("containment"),
    text_column("node"),
    text_column("history"),
    text_column("site"),
    text_column("element"),
    text_column("broker"),
    text_column("submit_pool"),
    text_column("reason"),
    text_column("lacks"),
    text_column("waits"),
    Column("slots", Integer, server_default="1", nullable=False),
    text_column("server"),
    text_column("agent_version"),
    Column("missing_since", Double),
    Column("ended_there_since", Double),
    Column("end_doubt", Double, server_default="0", nullable=False),
    Index("pilots_by_state", "state", "since", "id"),
    Index("pilots_by_queue", "queue", "id"),
)

_p = pilots.c

PILOT_COLUMNS = (
    *(_p.id, _p.queue, _p.requirements, _p.kind, _p.owner, _p.vo, _p.group, _p.vo_role),
    *(_p.cores, _p.memory, _p.walltime, _p.state, _p.created, _p.since),
    *(_p.reference, _p.heartbeat, _p.matched, _p.error, _p.containment, _p.node),
    *(_p.site, _p.element, _p.broker, _p.submit_pool, _p.reason, _p.lacks),
    *(_p.waits, _p.slots, _p.server, _p.agent_version, _p.missing_since),
    *(_p.ended_there_since, _p.end_doubt),
)
PILOT_STATES = {str(state): state for state in PilotState}


# Loops read all live pilots again and again, and few have changed: convert a row once.
@lru_cache(maxsize=20_000)
def pilot(row: tuple[Any, ...]) -> Pilot:
    """Make a pilot of a row of :data:`PILOT_COLUMNS`."""
    return Pilot(
        id=row[0],
        queue=row[1],
        requirements=row[2],
        kind=row[3],
        owner=Identity(name=row[4], vo=row[5], group=row[6], vo_role=row[7]),
        cores=row[8],
        memory=row[9],
        walltime=row[10],
        state=PILOT_STATES[row[11]],
        created=row[12],
        since=row[13],
        reference=row[14],
        heartbeat=row[15],
        matched=row[16],
        error=row[17],
        containment=row[18],
        node=row[19],
        site=row[20],
        element=row[21],
        broker=row[22],
        submit_pool=row[23],
        reason=row[24],
        lacks=row[25],
        waits=row[26],
        slots=row[27],
        server=row[28],
        agent_version=row[29],
        missing_since=row[30],
        ended_there_since=row[31],
        end_doubt=row[32],
    )
