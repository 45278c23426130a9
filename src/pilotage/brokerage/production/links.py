"""Links from every queue to a nucleus, and their network weight (B34, B35)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.model.federation import Link

from .columns import Column, Mask, QueueColumns

FARTHEST = 11.0
UNKNOWN_CLOSENESS = 7.7
BLOCKED = -1.0
NUCLEUS_WEIGHT = 2.5
_THROUGHPUTS = np.array([1.0, 2, 10, 20, 50, 75, 100, 200])
_WEIGHTS = np.array([1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 1.9, 2.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTable:
    """One row for each of some nuclei, one column for each queue: shapes (N, Q).

    Without a nucleus every queue is ``here`` and weighs 1, which makes the nucleus rules not applicable.
    Of shape (N, 1): ``exists`` where there is a nucleus, ``closed`` where none of its storages may be written
    from afar, ``arriving`` the files that wait on all links to it. ``files`` wait on the queue's own link;
    ``weight`` is B34's.
    """

    exists: Mask
    closed: Mask
    here: Mask
    blocked: Mask
    files: Column
    arriving: Column
    weight: Column

    @classmethod
    def of(cls, nuclei: Sequence[str], queues: QueueColumns) -> "LinkTable":
        """The rows of these nuclei; the empty name stands for no nucleus. A site may be unknown."""
        shape = (len(nuclei), len(queues))
        table = cls(
            exists=np.array([[bool(nucleus)] for nucleus in nuclei], dtype=bool),
            closed=np.array([[_closed(nucleus, queues)] for nucleus in nuclei], dtype=bool),
            here=np.ones(shape, dtype=bool),
            blocked=np.zeros(shape, dtype=bool),
            files=np.zeros(shape),
            arriving=np.zeros((len(nuclei), 1)),
            weight=np.ones(shape),
        )
        for row, nucleus in enumerate(nuclei):
            if nucleus:
                table._fill(row, queues.sites.get(nucleus, -1), queues)
        return table

    def _fill(self, row: int, nucleus: int, queues: QueueColumns) -> None:
        here = queues.site == nucleus
        files = np.zeros(len(queues.sites))
        for (source, destination), count in queues.live.link_files.items():
            if destination == nucleus:
                files[source] += count
        blocked = np.zeros(len(queues.sites), dtype=bool)
        throughput = np.full(len(queues.sites), 1 + (FARTHEST - UNKNOWN_CLOSENESS) / FARTHEST)
        for link in queues.links.get(nucleus, ()):
            source = queues.sites[link.source]
            blocked[source] = link.closeness == BLOCKED
            throughput[source] = throughput_weight(link)
        queued = 2 - files / queues.constants.nqueued_sat_cap
        self.here[row] = here
        self.blocked[row] = blocked[queues.site] & ~here
        self.files[row] = files[queues.site]
        self.arriving[row] = files.sum()
        self.weight[row] = np.where(here, NUCLEUS_WEIGHT, (0.5 * (queued + throughput))[queues.site])


def _closed(nucleus: str, queues: QueueColumns) -> bool:
    own = queues.storage_sites == queues.sites.get(nucleus, -1)
    return bool(own.any() and queues.storage_blacklists["write_wan"][own].all())


def throughput_weight(link: Link) -> float:
    """B35: by the latest of the 1 h, 1 d and 1 w windows, each standing alone; else by closeness."""
    for measured in (link.throughput_1h, link.throughput_1d, link.throughput_1w):
        if measured is not None:
            return float(_WEIGHTS[np.searchsorted(_THROUGHPUTS, measured, side="left")])
    closeness = UNKNOWN_CLOSENESS if link.closeness is None else link.closeness
    return 1 + (FARTHEST - (FARTHEST if closeness == BLOCKED else closeness)) / FARTHEST
