"""Measure links: what transfers took in the last hour, day and week (B35).

The last hour comes from the transfers themselves. For earlier hours the commit keeps sums.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Column, Connection, Double, Integer, String, Table, bindparam, delete, select

from pilotage.model.records.federation import Federation, Link
from pilotage.model.records.states import TransferState
from pilotage.model.values.durations import HOUR
from pilotage.store.database.columns import is_state, metadata
from pilotage.store.database.dialects import upsert
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.files.table import files
from pilotage.store.transfers.table import transfers

WINDOWS = {"throughput_1d": 24, "throughput_1w": 24 * 7}
"""B35's other windows in hours, including the current one."""

SMALLEST = 10_000_000
"""Least bytes of a transfer that measures its link: a smaller one ends before it is fast."""

MOST_TRANSFERS = 5000
"""Most recent transfers to read."""

MEASURED_EVERY = 60.0
"""Seconds for which a measurement is reused."""

_Rates = dict[tuple[str, str], dict[str, float]]
"""MB/s by the sites of source and destination, then by window."""

_Measured = Iterable[tuple[str, str, float, float]]
"""The storages of source and destination, MB, and their seconds."""

link_hours = Table(
    "link_hours",
    metadata,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("source", String, primary_key=True),
    Column("destination", String, primary_key=True),
    Column("megabytes", Double, nullable=False),
    Column("seconds", Double, nullable=False),
)
"""Sums of transfers between storages, by the hour of their end, counted from 1970."""

_x = transfers.c
_LAST = (
    select(_x.file, _x.source, _x.destination, _x.started, _x.ended)
    .where(is_state(transfers, TransferState.DONE), _x.since > bindparam("since"))
    .order_by(_x.since.desc(), _x.id.desc())
    .limit(MOST_TRANSFERS)
    .subquery("last_transfers")
)
_MEASURED = (
    select(_LAST.c.source, _LAST.c.destination, files.c.size, _LAST.c.ended - _LAST.c.started)
    .join(files, files.c.name == _LAST.c.file)
    .where(files.c.size >= SMALLEST, _LAST.c.ended > _LAST.c.started)
)
_h = link_hours.c
_BROUGHT = (
    select(_x.source, _x.destination, files.c.size, _x.ended - _x.started)
    .join(files, files.c.name == _x.file)
    .where(among(_x.id, "ids"))
)
_ADD = upsert(
    link_hours,
    ["hour", "source", "destination"],
    link_hours.c.keys(),
    {name: f"link_hours.{name} + excluded.{name}" for name in ("megabytes", "seconds")},
)
_SUMS = select(_h.source, _h.destination, _h.megabytes, _h.seconds, _h.hour).where(
    _h.hour > bindparam("after")
)
_FORGET = delete(link_hours).where(_h.hour <= bindparam("before"))


def count(connection: Connection, ids: Collection[int], time: float) -> dict[tuple[str, str], float]:
    """Add transfers done at a time in s since 1970 to the sums of their hour. Return bytes by the ends."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    moved: dict[tuple[str, str], float] = defaultdict(float)
    for source, destination, size, duration in raw_rows(connection, _BROUGHT, ids=list(ids)):
        # Within one storage an output is renamed, and nothing moves.
        if source == destination:
            continue
        moved[source, destination] += size
        if size >= SMALLEST and duration is not None and duration > 0:
            total = sums[source, destination]
            total[:] = total[0] + size / 1e6, total[1] + duration
    if sums:
        _add_to_hour(connection, int(time // HOUR), sums)
    return moved


def _add_to_hour(connection: Connection, hour: int, sums: Mapping[tuple[str, str], list[float]]) -> None:
    rows = [
        {"hour": hour, "source": ends[0], "destination": ends[1], "megabytes": total[0], "seconds": total[1]}
        for ends, total in sorted(sums.items())
    ]
    connection.execute(_ADD, rows)
    connection.execute(_FORGET, {"before": hour - max(WINDOWS.values())})


class LinkRates:
    """Adds the throughput measured in the last hour, day and week to the links of a federation.

    A measurement holds for a minute. While it stays equal, the federation stays the same object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: tuple[Federation, float, _Rates, Federation] | None = None

    def applied(self, connection: Connection, federation: Federation, time: float) -> Federation:
        """Return the federation with measurements up to a time in s since 1970."""
        with self._lock:
            last = self._cache
        # Compare identity, not equality: brokerages cache the columns of its queues by identity.
        is_known = last is not None and last[0] is federation
        if last and is_known and 0 <= time - last[1] < MEASURED_EVERY:
            return last[3]
        rates = _rates(connection, federation, time)
        measured = last[3] if last and is_known and last[2] == rates else _with_rates(federation, rates)
        with self._lock:
            self._cache = federation, time, rates, measured
        return measured


def _rates(connection: Connection, federation: Federation, time: float) -> _Rates:
    """Return MB/s by the sites of source and destination: all bytes over all their times."""
    sites = {storage.name: storage.site for storage in federation.storages}
    last = raw_rows(connection, _MEASURED, since=time - HOUR)
    rates: _Rates = defaultdict(dict)
    for ends, rate in _means(((*row[:2], row[2] / 1e6, row[3]) for row in last), sites).items():
        rates[ends]["throughput_1h"] = rate
    now = int(time // HOUR)
    hours = raw_rows(connection, _SUMS, after=now - max(WINDOWS.values()))
    for window, length in WINDOWS.items():
        within = (row[:4] for row in hours if now - length < row[4] <= now)
        for ends, rate in _means(within, sites).items():
            rates[ends][window] = rate
    return dict(rates)


def _means(measured: _Measured, sites: Mapping[str, str]) -> dict[tuple[str, str], float]:
    megabytes: dict[tuple[str, str], float] = defaultdict(float)
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for source, destination, size, duration in measured:
        if source != destination and source in sites and destination in sites:
            link = sites[source], sites[destination]
            megabytes[link] += size
            seconds[link] += duration
    return {link: megabytes[link] / seconds[link] for link in megabytes}


def _with_rates(federation: Federation, rates: _Rates) -> Federation:
    if not rates:
        return federation
    declared = {(link.source, link.destination): link for link in federation.links}
    measured = {
        ends: _measured(declared.get(ends) or Link(source=ends[0], destination=ends[1]), windows)
        for ends, windows in sorted(rates.items())
    }
    return replace(federation, links=tuple((declared | measured).values()))


def _measured(link: Link, windows: Mapping[str, float]) -> Link:
    return replace(
        link,
        throughput_1h=windows.get("throughput_1h", link.throughput_1h),
        throughput_1d=windows.get("throughput_1d", link.throughput_1d),
        throughput_1w=windows.get("throughput_1w", link.throughput_1w),
    )
