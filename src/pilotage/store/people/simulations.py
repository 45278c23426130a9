"""The last simulation that each person started on the page, so that any server shows it: table and access."""

from dataclasses import dataclass

from sqlalchemy import Column, Connection, Double, String, Table, Text, bindparam, delete, select, update

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import raw_rows

KEPT_FOR = 86_400.0
"""Seconds for which a simulation is kept."""

MOST_KEPT = 50
"""Most simulations that are kept, the newest."""

simulations = Table(
    "simulations",
    metadata,
    Column("person", String, primary_key=True),
    Column("begun", Double, nullable=False),
    Column("ended", Double),
    Column("document", Text, nullable=False),
)

_s = simulations.c
_OF = select(_s.begun, _s.ended, _s.document).where(_s.person == bindparam("who"))
_BEGIN = upsert(simulations, ["person"], _s.keys(), replaced(["begun", "ended", "document"]))
_END = (
    update(simulations)
    .where(_s.person == bindparam("who"), _s.begun == bindparam("since"))
    .values(ended=bindparam("at"), document=bindparam("result"))
)
_NEWEST = select(_s.begun).order_by(_s.begun.desc()).limit(1).offset(MOST_KEPT - 1).scalar_subquery()
_OLD = delete(simulations).where((_s.begun < bindparam("before")) | (_s.begun < _NEWEST))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """The policies that a simulation compares. An ended one has its words and pictures, or its fault."""

    policies: tuple[str, ...]
    text: str = ""
    fault: str = ""
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSimulation:
    """A simulation that runs, or has ``ended``. Times in s since 1970."""

    begun: float
    ended: float | None
    result: SimulationResult


class Simulations:
    """Keeps the last simulation of each person."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, person: str, now: float) -> StoredSimulation | None:
        """Return the last simulation of a person; None if there is none, or it is too old."""
        return self._database.read(lambda connection: _of(connection, person, now))

    def begin(self, person: str, policies: tuple[str, ...], now: float, longest: float) -> bool:
        """Record that a simulation begins, in place of the person's last one.

        Return False while that one runs. One that takes more than ``longest`` s has lost its server.
        """
        document = to_json(SimulationResult(policies=policies)).decode()

        def write(connection: Connection) -> bool:
            before = _of(connection, person, now)
            if before and before.ended is None and now - before.begun < longest:
                return False
            row = {"person": person, "begun": now, "ended": None, "document": document}
            connection.execute(_BEGIN, row)
            connection.execute(_OLD, {"before": now - KEPT_FOR})
            return True

        return self._database.write(write)

    def end(self, person: str, begun: float, now: float, result: SimulationResult) -> None:
        """Keep the result of the simulation that began at a time, if it is still the person's last."""
        values = {"who": person, "since": begun, "at": now, "result": to_json(result).decode()}
        self._database.write(lambda connection: connection.execute(_END, values))


def _of(connection: Connection, person: str, now: float) -> StoredSimulation | None:
    rows = raw_rows(connection, _OF, who=person)
    if not rows or now - rows[0][0] > KEPT_FOR:
        return None
    begun, ended, document = rows[0]
    return StoredSimulation(begun=begun, ended=ended, result=from_json(SimulationResult, document))
