"""Measurements of all processes of a store, added up: they only grow, whoever ends or starts."""

import json
from collections.abc import Mapping

from sqlalchemy import Column, Connection, Double, String, Table, select

from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.measurements import MeasuredKey, Sums
from pilotage.store.database.rows import raw_rows
from pilotage.store.database.upserts import replaced, upsert

measurements = Table(
    "measurements",
    metadata,
    Column("name", String, primary_key=True),
    Column("labels", String, primary_key=True),
    Column("part", String, primary_key=True),
    Column("value", Double, nullable=False),
)

_m = measurements.c
_KEY = ("name", "labels", "part")
_ALL = select(_m.name, _m.labels, _m.part, _m.value)

LATEST = "latest"
"""The part that holds a moment, the latest that a process saw."""

_NOTE = upsert(
    measurements, _KEY, _m.keys(), replaced(["value"]), where="measurements.value < excluded.value"
)


def add(connection: Connection, sums: Sums, latest: Mapping[tuple[str, str], float]) -> None:
    """Add a process's sums to those of all, and keep the latest moments."""
    rows = [(key.name, json.dumps(key.labels), key.part, float(value)) for key, value in sums.items()]
    bulk.add(connection, measurements, _KEY, "value", rows)
    if latest:
        moments = [
            {"name": name, "labels": json.dumps([label]), "part": LATEST, "value": moment}
            for (name, label), moment in sorted(latest.items())
        ]
        connection.execute(_NOTE, moments)


def everything(connection: Connection) -> dict[MeasuredKey, float]:
    """Return all sums and moments."""
    return {
        MeasuredKey(name, tuple(json.loads(labels)), part): value
        for name, labels, part, value in raw_rows(connection, _ALL)
    }
