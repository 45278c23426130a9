"""Declared links by destination, and what their throughput weighs (B35)."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotage.model.federation import Link

FARTHEST = 11.0
UNKNOWN_CLOSENESS = 7.7
UNKNOWN_WEIGHT = 1 + (FARTHEST - UNKNOWN_CLOSENESS) / FARTHEST
BLOCKED = -1.0
_THROUGHPUTS = (1.0, 2.0, 10.0, 20.0, 50.0, 75.0, 100.0, 200.0)
_WEIGHTS = (1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 1.9, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingLinks:
    """The links to one site: codes of the sources, whether blocked, and the throughput weight of each."""

    sources: NDArray[np.intp]
    blocked: NDArray[np.bool_]
    throughput: NDArray[np.float64]


def incoming_links(links: Iterable[Link], sites: Mapping[str, int]) -> dict[int, IncomingLinks]:
    """By code of the destination."""
    grouped: dict[int, list[Link]] = {}
    for link in links:
        grouped.setdefault(sites[link.destination], []).append(link)
    return {
        destination: IncomingLinks(
            sources=np.array([sites[link.source] for link in group], dtype=np.intp),
            blocked=np.array([link.closeness == BLOCKED for link in group], dtype=bool),
            throughput=np.array([throughput_weight(link) for link in group]),
        )
        for destination, group in grouped.items()
    }


def throughput_weight(link: Link) -> float:
    """B35: by the latest of the 1 h, 1 d and 1 w windows, each standing alone; else by closeness."""
    for measured in (link.throughput_1h, link.throughput_1d, link.throughput_1w):
        if measured is not None:
            return _WEIGHTS[bisect_left(_THROUGHPUTS, measured)]
    closeness = UNKNOWN_CLOSENESS if link.closeness is None else link.closeness
    return 1 + (FARTHEST - (FARTHEST if closeness == BLOCKED else closeness)) / FARTHEST
