"""Links between queues and nuclei: closeness, files in transfer, network weight (B34)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.model.rules.sources import outputs_at
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.link_weights import UNKNOWN_WEIGHT
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns

NUCLEUS_WEIGHT = 2.5
"""Network weight of the nucleus' own queues (B35)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTable:
    """One row per nucleus, one column per queue: shapes (N, Q).

    Without a nucleus every queue is ``here`` and weighs 1, so the nucleus rules do not apply. Every link
    starts at the queue's storage, even if the queue is at another site. These have shape (N, 1): ``exists``
    is true if there is a nucleus. ``closed`` is true if no storage for its outputs accepts remote writes.
    ``breaker`` is the reason if circuit breakers close all of them now, else empty (F4). ``arriving`` counts
    output files in transfer to it from other sites. ``files`` counts files that wait on the queue's link.
    ``weight`` is the weight of B34.
    """

    exists: Mask
    closed: Mask
    breaker: Column
    here: Mask
    blocked: Mask
    files: Column
    arriving: Column
    weight: Column

    @classmethod
    def of(cls, nuclei: Sequence[tuple[str, int]], queues: QueueColumns) -> "LinkTable":
        """Return the rows of these nuclei, given with their ``nqueued_sat_cap``.

        The empty name means no nucleus. A site may be unknown.
        """
        shape = (len(nuclei), len(queues))
        table = cls(
            exists=np.array([[bool(nucleus)] for nucleus, _ in nuclei], dtype=bool),
            closed=np.array([[_closed(nucleus, queues)] for nucleus, _ in nuclei], dtype=bool),
            breaker=np.array([[_breaker(nucleus, queues)] for nucleus, _ in nuclei], dtype=object),
            here=np.ones(shape, dtype=bool),
            blocked=np.zeros(shape, dtype=bool),
            files=np.zeros(shape),
            arriving=np.zeros((len(nuclei), 1)),
            weight=np.ones(shape),
        )
        for row, (nucleus, cap) in enumerate(nuclei):
            if nucleus:
                table._fill(row, queues.sites.get(nucleus, -1), cap, queues)
        return table

    def _fill(self, row: int, nucleus: int, cap: int, queues: QueueColumns) -> None:
        here = queues.storage_site == nucleus
        files = np.zeros(len(queues.sites))
        for source, count in queues.live.link_files.get(nucleus, {}).items():
            files[source] = count
        blocked = np.zeros(len(queues.sites), dtype=bool)
        throughput = np.full(len(queues.sites), UNKNOWN_WEIGHT)
        links = queues.links.get(nucleus)
        if links is not None:
            blocked[links.sources] = links.blocked
            throughput[links.sources] = links.throughput
        queued = np.maximum(2 - files / cap, 0)
        self.here[row] = here
        self.blocked[row] = blocked[queues.storage_site] & ~here
        self.files[row] = files[queues.storage_site]
        self.arriving[row] = queues.live.arriving.get(nucleus, 0)
        # Compute by site first (a short row), then expand to the queues of each site.
        self.weight[row] = np.where(here, NUCLEUS_WEIGHT, (0.5 * (queued + throughput))[queues.storage_site])


def _closed(nucleus: str, queues: QueueColumns) -> bool:
    """Return whether all storages for outputs at the nucleus are closed (B19), apart from scratch and
    tape."""
    storages = outputs_at(queues.federation, nucleus)
    return bool(storages) and all("write_wan" in storage.blacklisted for storage in storages)


def _breaker(nucleus: str, queues: QueueColumns) -> str:
    """Return the breaker's reason if no storage for outputs at the nucleus accepts any now; empty if one
    does, or if all are blacklisted."""
    written = {
        breaker.place[1]: breaker.sentence for breaker in queues.live.storage_breakers if not breaker.place[0]
    }
    if not written:
        return ""
    storages = outputs_at(queues.federation, nucleus)
    able = [written.get(storage.name, "") for storage in storages if "write_wan" not in storage.blacklisted]
    return able[0] if able and all(able) else ""
