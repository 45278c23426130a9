"""How many rows of the catalogue each person has made: files that they registered, members of versions of
datasets. What they forget is taken off."""

from sqlalchemy import Column, Connection, Integer, String, Table, bindparam, select

from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.engine import Database

registrations = Table(
    "registrations",
    metadata,
    Column("actor", String, primary_key=True),
    Column("rows", Integer, nullable=False),
)

OF_USERS = "user:"
"""The beginning of names of people who are no operators, as events name them."""

_ROWS = select(registrations.c.rows).where(registrations.c.actor == bindparam("of"))


def count(connection: Connection, actor: str, rows: int) -> None:
    """Add what a person made, or with a negative number forgot. Operators and steps are not counted."""
    if rows and actor.startswith(OF_USERS):
        bulk.add(connection, registrations, ("actor",), "rows", [(actor, rows)])


def registered_by(database: Database, actor: str) -> int:
    """Return how many rows a person has, as events name people."""
    return database.read(lambda connection: connection.execute(_ROWS, {"of": actor}).scalar() or 0)
