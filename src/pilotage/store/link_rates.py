"""Links are measured: what transfers took in the last hour is the throughput of their links (B35)."""

import threading
from collections import defaultdict
from dataclasses import replace

from sqlalchemy import Connection, bindparam, select

from pilotage.model.federation import Federation, Link
from pilotage.model.states import TransferState

from .columns import is_state
from .files import files
from .sets import raw_rows
from .transfers import transfers

WINDOW = 3600.0
"""How old a transfer may be that counts, in s: the first of the windows of B35."""

SMALLEST = 10_000_000
"""Bytes from which a transfer tells of its link: that of a smaller one is over before it is fast."""

MOST_TRANSFERS = 5000
"""The last transfers that are looked at."""

MEASURED_EVERY = 60.0
"""s for which a measurement stands."""

_Rates = dict[tuple[str, str], float]
"""MB/s by the sites of source and destination."""

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


class LinkRates:
    """Puts the throughput that was measured in the last hour into the links of a federation.

    A measurement stands for a minute: as long as it finds the same, a federation is one and the same object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Federation, float, _Rates, Federation] | None = None

    def applied(self, connection: Connection, federation: Federation, time: float) -> Federation:
        """Return the federation with what was measured before a time, in s since 1970."""
        with self._lock:
            known = self._known
        # The same object, not an equal one: brokerages keep the columns of its queues by identity.
        is_known = known is not None and known[0] is federation
        if known and is_known and 0 <= time - known[1] < MEASURED_EVERY:
            return known[3]
        rates = _rates(connection, federation, time)
        measured = known[3] if known and is_known and known[2] == rates else _with_rates(federation, rates)
        with self._lock:
            self._known = federation, time, rates, measured
        return measured


def _rates(connection: Connection, federation: Federation, time: float) -> _Rates:
    """Measure MB/s by the sites of source and destination: all bytes over all times that they took."""
    sites = {storage.name: storage.site for storage in federation.storages}
    megabytes: dict[tuple[str, str], float] = defaultdict(float)
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for source, destination, size, taken in raw_rows(connection, _MEASURED, since=time - WINDOW):
        # Within one storage an output is renamed, and nothing moves.
        if source != destination and source in sites and destination in sites:
            link = sites[source], sites[destination]
            megabytes[link] += size / 1e6
            seconds[link] += taken
    return {link: megabytes[link] / seconds[link] for link in megabytes}


def _with_rates(federation: Federation, rates: _Rates) -> Federation:
    if not rates:
        return federation
    declared = {(link.source, link.destination): link for link in federation.links}
    measured = {
        ends: replace(declared.get(ends) or Link(source=ends[0], destination=ends[1]), throughput_1h=rate)
        for ends, rate in sorted(rates.items())
    }
    return replace(federation, links=tuple((declared | measured).values()))
