"""The last advertisement of each site, with the counts at its commit (M2, M5)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Double, Integer, String, Table, or_, select

from pilotage.model.documents.decision import Change, Create
from pilotage.model.records.advertisements import Advertisement, NewAdvertisement, canonical
from pilotage.model.records.counters import MATCHES_BY_SITE, PILOTS_BY_SITE, Claim
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS, PilotState
from pilotage.store.database.columns import metadata, text_column
from pilotage.store.database.dialects import replaced, upsert
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs.counters import Deltas, counters

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
_OF_SITES = _ALL.where(among(_a.site, "sites"))
_BOUNDING = _ALL.where(or_(_a.source == "pushed", among(_a.site, "sites")))
_COUNTED = (MATCHES_BY_SITE, PILOTS_BY_SITE)
_COUNTS = select(_c.counter, _c.first, _c.second, _c.state, _c.count).where(_c.counter.in_(_COUNTED))
_COUNTS_OF = _COUNTS.where(among(_c.first, "sites"))
_CREATED = frozenset([PilotState.CREATED])
_WAITING, _LIVE = frozenset(WAITING_PILOTS), frozenset(LIVE_PILOTS)


def read_for(changes: Iterable[Change]) -> Iterator[Claim]:
    """Yield claims for the counts that the new advertisements need."""
    for change in changes:
        for record in change.records if isinstance(change, Create) else ():
            if isinstance(record, NewAdvertisement):
                yield Claim(counter=MATCHES_BY_SITE, key=(record.site, 0), states=(), limit=0)
                yield _pilots(record.site)


def _pilots(site: str, without: frozenset[PilotState] = frozenset()) -> Claim:
    states = tuple(state for state in LIVE_PILOTS if state not in without)
    return Claim(counter=PILOTS_BY_SITE, key=(site, None), states=states, limit=0)


def write(
    connection: Connection, records: Sequence[NewAdvertisement], time: float, deltas: Deltas
) -> list[bool]:
    """Write advertisements. Return which were written.

    Skip an advertisement if another one has replaced the one that it was made to replace.
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
    """Return the row of an advertisement.

    A site that counts jobs itself counts our submitted pilots too. A batch system's answer has the number of
    our pilots in its counts: pilots submitted since then are not in them.
    """
    is_pushed = record.source == "pushed"
    running = frozenset(LIVE_PILOTS) - _WAITING
    return {
        "site": record.site,
        "number": deltas.advertised(record.site),
        "time": time if record.answered is None else record.answered,
        "source": record.source,
        "attributes": json.dumps(dict(record.attributes), sort_keys=True),
        "requirements": record.requirements,
        "pilots": deltas.count_of(_pilots(record.site, _CREATED)) if is_pushed else record.pilots,
        "submitting": deltas.count_of(_pilots(record.site, _CREATED | running))
        if is_pushed
        else record.submitting,
    }


def read(
    connection: Connection, sites: Sequence[str] | None = None, pushed: bool = False
) -> tuple[Advertisement, ...]:
    """Return the advertisements of some sites or all.

    With ``pushed``, return also all that sites sent.
    """
    of = {} if sites is None else {"sites": sorted(sites)}
    query = _ALL if sites is None else _BOUNDING if pushed else _OF_SITES
    names = [column.name for column in advertisements.c]
    rows = [dict(zip(names, row, strict=True)) for row in raw_rows(connection, query, **of)]
    if not rows:
        return ()
    counted = _counts(connection, None if sites is None else [row["site"] for row in rows])
    return tuple(
        Advertisement(
            **{**row, "attributes": _attributes(row["attributes"]), **counted.get(row["site"], _NOTHING)}
        )
        for row in rows
    )


_NOTHING = {"matched": 0, "pilot_slots": 0}


def _counts(connection: Connection, sites: Sequence[str] | None) -> dict[str, dict[str, int]]:
    """Return matches since the advertisement, and our live pilots, by site."""
    counts: dict[str, dict[str, int]] = {}
    query, of = (_COUNTS, {}) if sites is None else (_COUNTS_OF, {"sites": sites})
    for counter, site, second, state, count in raw_rows(connection, query, **of):
        of_site = counts.setdefault(site, dict(_NOTHING))
        if counter == MATCHES_BY_SITE:
            # The row of a site begins with 1: see ``Deltas.advertised``.
            of_site["matched"] = int(count) - 1
        elif state in _LIVE:
            of_site["pilot_slots"] += count * int(second)
    return counts


@lru_cache(maxsize=10_000)
def _attributes(text: str) -> Mapping[str, Any]:
    # Sites repeat the same text. Older versions accepted any case.
    return canonical(json.loads(text))
