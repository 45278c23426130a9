"""The targets of global shares that follow use: one row, which a loop renews and the federation reads."""

from collections.abc import Mapping

from sqlalchemy import Column, Connection, Integer, Table, Text, select

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.rules.global_shares import FollowedTarget
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import replaced, upsert

share_targets = Table(
    "share_targets",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", Integer, nullable=False),
    Column("targets", Text, nullable=False),
)

_ROW = 1
_t = share_targets.c
REVISION = select(_t.revision).where(_t.id == _ROW).scalar_subquery()
"""The number of the targets in force; null: they never followed use."""

_READ = select(_t.targets, _t.revision).where(_t.id == _ROW)
_WRITE = upsert(share_targets, ["id"], _t.keys(), replaced(["revision", "targets"]))


def read(connection: Connection) -> tuple[Mapping[str, FollowedTarget], int]:
    """Return the targets in force by share, and their number."""
    row = connection.execute(_READ).one_or_none()
    return (from_json(dict[str, FollowedTarget], row.targets), row.revision) if row else ({}, 0)


def write(connection: Connection, targets: Mapping[str, FollowedTarget]) -> None:
    """Put targets in force; without any, the declared ones. Each change has a new number."""
    before, revision = read(connection)
    # Their use may differ a little: that is no reason for all processes to read them again.
    if {name: share.target for name, share in before.items()} == {
        name: share.target for name, share in targets.items()
    }:
        return
    text = to_json(dict(sorted(targets.items()))).decode()
    connection.execute(_WRITE, {"id": _ROW, "revision": revision + 1, "targets": text})
