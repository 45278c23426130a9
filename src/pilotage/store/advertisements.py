"""The last advertisement of each site, with what was there at the moment of its commit (M2, M5)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Double, Integer, String, Table, bindparam, func, select

from pilotage.model.advertisements import Advertisement, NewAdvertisement
from pilotage.model.counters import MATCHES_BY_SITE, PILOTS_BY_SITE
from pilotage.model.decision import Change, Claim, Create
from pilotage.model.states import LIVE_PILOTS, WAITING_PILOTS, PilotState

from .columns import metadata, text_column
from .counters import Deltas, counters
from .sets import among, raw_rows
from .upserts import replaced, upsert

advertisements = Table(
    "advertisements",
    metadata,
    Column("site", String, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("time", Double, nullable=False),
    Column("source", String, nullable=False),
    Column("attributes", String, nullable=False),
    text_column("requirements"),
    Column("pilots", Integer, nullable=False),
    Column("submitting", Integer, nullable=False),
)

_a, _c = advertisements.c, counters.c
_COLUMNS = _a.keys()
_SAVE = upsert(
    advertisements, ["site"], _COLUMNS, replaced(column for column in _COLUMNS if column != "site")
)
_ALL = select(advertisements).order_by(_a.site)
_OF_SITE = _ALL.where(_a.site == bindparam("site"))
_COUNTS = (
    select(_c.first, func.sum(_c.count))
    .where(_c.counter == bindparam("counter"), among(_c.state, "states"))
    .group_by(_c.first)
)
_COUNTS_OF_SITE = _COUNTS.where(_c.first == bindparam("site"))
_CREATED = frozenset([PilotState.CREATED])
_WAITING = frozenset(WAITING_PILOTS)


def read_for(changes: Iterable[Change]) -> Iterator[Claim]:
    """Look up what the advertisements among new records need."""
    for change in changes:
        for record in change.records if isinstance(change, Create) else ():
            if isinstance(record, NewAdvertisement):
                yield Claim(counter=MATCHES_BY_SITE, key=(record.site, 0), states=(), limit=0)
                yield _pilots(record.site)


def _pilots(site: str, without: frozenset[PilotState] = frozenset()) -> Claim:
    states = tuple(state for state in LIVE_PILOTS if state not in without)
    return Claim(counter=PILOTS_BY_SITE, key=(site,), states=states, limit=0)


def write(
    connection: Connection, records: Sequence[NewAdvertisement], time: float, deltas: Deltas
) -> list[bool]:
    """Write advertisements, with our pilots at each site as the commit sees them; tells which were written.

    One that would replace another than the one that stands is left out.
    """
    rows, written = [], []
    for record in records:
        standing = max(map(int, deltas.matches(record.site)), default=0)
        written.append(record.replaces in (None, standing))
        if written[-1]:
            rows.append(_row(record, time, deltas))
    if rows:
        connection.execute(_SAVE, rows)
    return written


def _row(record: NewAdvertisement, time: float, deltas: Deltas) -> dict[str, Any]:
    """Make the row of an advertisement.

    A site that tells its own counts cannot have counted pilots that are not submitted yet: these come on top.
    """
    unseen = _CREATED if record.source == "pushed" else frozenset[PilotState]()
    running = frozenset(LIVE_PILOTS) - _WAITING
    return {
        "site": record.site,
        "number": deltas.advertised(record.site),
        "time": time,
        "source": record.source,
        "attributes": json.dumps(dict(record.attributes), sort_keys=True),
        "requirements": record.requirements,
        "pilots": deltas.taken(_pilots(record.site, unseen)),
        "submitting": deltas.taken(_pilots(record.site, unseen | running)),
    }


def read(connection: Connection, site: str | None = None) -> tuple[Advertisement, ...]:
    """The advertisements of a site or of all, with what was handed to each since."""
    names = [column.name for column in advertisements.c]
    of = {} if site is None else {"site": site}
    found = raw_rows(connection, _ALL if site is None else _OF_SITE, **of)
    rows = [dict(zip(names, row, strict=True)) for row in found]
    if not rows:
        return ()
    matched = _counted(connection, MATCHES_BY_SITE, ["matched"], of)
    live = _counted(connection, PILOTS_BY_SITE, [str(state) for state in LIVE_PILOTS], of)
    return tuple(
        Advertisement(
            **{**row, "attributes": json.loads(row["attributes"])},
            # The row of a site begins with 1: see :meth:`Deltas.advertised`.
            matched=matched.get(row["site"], 1) - 1,
            live_pilots=live.get(row["site"], 0),
        )
        for row in rows
    )


def _counted(
    connection: Connection, counter: str, states: list[str], of: Mapping[str, str]
) -> dict[str, int]:
    rows = raw_rows(connection, _COUNTS_OF_SITE if of else _COUNTS, counter=counter, states=states, **of)
    return {site: int(count) for site, count in rows}
