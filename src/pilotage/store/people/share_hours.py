"""The use of shares in each hour, next to their targets: table, samples, and reading."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Double, Integer, String, Table, bindparam, delete, func, select

from pilotage.model.values.durations import HOUR
from pilotage.model.values.types import DESCRIBED
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.rows import raw_rows

share_hours = Table(
    "share_hours",
    metadata,
    # Hours since 1970, as whole numbers: both databases divide these alike.
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("share", String, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("running", Double, nullable=False),
    Column("used", Double, nullable=False),
    Column("target", Double, nullable=False),
)

_s = share_hours.c
_ADD = upsert(
    share_hours,
    ["hour", "share"],
    _s.keys(),
    {name: f"share_hours.{name} + excluded.{name}" for name in ("samples", "running", "used")}
    | replaced(["target"]),
)
_OLD = delete(share_hours).where(_s.hour < bindparam("before"))
_step = bindparam("step", type_=Integer)
_begin = (_s.hour - _s.hour % _step).label("begin")
_MEANS = (
    select(
        *(_begin, _s.share, func.sum(_s.running), func.sum(_s.used), func.sum(_s.samples)),
        func.avg(_s.target),
    )
    .where(_s.hour >= bindparam("after"))
    .group_by(_begin, _s.share)
    .order_by(_s.share, _begin)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """A share's running jobs at a moment, their fraction of all, and its fraction of all targets."""

    share: str
    running: int
    used: float
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSpan:
    """A share's mean use in a span of time, over the times when any job ran."""

    __pydantic_config__ = DESCRIBED

    time: float
    """When the span begins, in s since 1970."""
    share: str
    """The share."""
    running: float
    """Its running jobs."""
    used: float
    """These as a part of all running jobs."""
    target: float
    """Its part of all targets."""


def add(connection: Connection, samples: Sequence[ShareSample], time: float) -> None:
    """Add a sample of each share to the hour of a time (s since 1970)."""
    hour = int(time // HOUR)
    rows = [
        {"hour": hour, "share": sample.share, "samples": 1}
        | {"running": sample.running, "used": sample.used, "target": sample.target}
        for sample in sorted(samples, key=lambda sample: sample.share)
    ]
    if rows:
        connection.execute(_ADD, rows)


def forget(connection: Connection, before: float) -> None:
    """Delete the hours before a time (s since 1970)."""
    connection.execute(_OLD, {"before": int(before // HOUR)})


def read(connection: Connection, after: float, step: int) -> list[ShareSpan]:
    """Return means over ``step`` hours each, since a time (s since 1970), by share and time."""
    rows = raw_rows(connection, _MEANS, after=int(after // HOUR), step=step)
    return [
        ShareSpan(
            time=begin * HOUR,
            share=share,
            running=running / samples,
            used=used / samples,
            target=target,
        )
        for begin, share, running, used, samples, target in rows
    ]
