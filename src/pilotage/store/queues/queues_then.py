"""The sites of queues and the power of their cores, as the federation declared them at a time."""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from pilotage.model.records.federation import UNKNOWN_CORE_POWER
from pilotage.store.database.rows import raw_rows
from pilotage.store.queues.federations import federations

_f = federations.c
_VERSIONS = select(_f.version, _f.time).order_by(_f.version)
_DOCUMENT = select(_f.document).where(_f.version == bindparam("version"))


class QueueThen(NamedTuple):
    """The site of a queue, and its HS23 per core."""

    site: str
    core_power: float


NOWHERE = QueueThen("", UNKNOWN_CORE_POWER)
"""What a queue is that the federation did not have."""


QueueAt = Callable[[str, float], QueueThen]
"""Returns a queue at a time (s since 1970 UTC), or in the first federation after it."""


class QueuesThen:
    """Reads queues at times. It keeps the last version that it read, because attempts end in turn."""

    def __init__(self) -> None:
        # One value, so that threads need no lock.
        self._last: tuple[int, Mapping[str, QueueThen]] = (0, {})

    def reader(self, connection: Connection) -> QueueAt:
        """Return a reader for one transaction."""
        rows = raw_rows(connection, _VERSIONS)
        versions, times = [row[0] for row in rows], [row[1] for row in rows]

        def read(queue: str, time: float) -> QueueThen:
            if not versions:
                return NOWHERE
            return self._of(connection, versions[max(0, bisect_right(times, time) - 1)]).get(queue, NOWHERE)

        return read

    def _of(self, connection: Connection, version: int) -> Mapping[str, QueueThen]:
        last = self._last
        if last[0] != version:
            # Do not parse it as a federation: another release's declaration may be invalid in this one.
            ((document,),) = raw_rows(connection, _DOCUMENT, version=version)
            queues = {
                queue["name"]: QueueThen(queue["site"], queue.get("core_power") or UNKNOWN_CORE_POWER)
                for queue in json.loads(document)["queues"]
            }
            last = self._last = version, queues
        return last[1]
