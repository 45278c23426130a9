"""Declared links by destination, and their weight by throughput (B35)."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotage.model.records.federation import Link
from pilotage.model.rules.sources import closeness_of, is_blocked, throughput_of
from pilotage.model.values.types import FARTHEST, UNKNOWN_CLOSENESS

UNKNOWN_WEIGHT = 1 + (FARTHEST - UNKNOWN_CLOSENESS) / FARTHEST
_THROUGHPUTS = (1.0, 2.0, 10.0, 20.0, 50.0, 75.0, 100.0, 200.0)
_WEIGHTS = (1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 1.9, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingLinks:
    """The links to one site: codes of the sources, whether each is blocked, and its throughput weight.

    ``rates`` are in MB/s; 0 means blocked or not measured.
    """

    sources: NDArray[np.intp]
    blocked: NDArray[np.bool_]
    throughput: NDArray[np.float64]
    rates: NDArray[np.float64]


def incoming_links(links: Iterable[Link], sites: Mapping[str, int]) -> dict[int, IncomingLinks]:
    """Return links grouped by the code of their destination."""
    grouped: dict[int, list[Link]] = {}
    for link in links:
        grouped.setdefault(sites[link.destination], []).append(link)
    return {
        destination: IncomingLinks(
            sources=np.array([sites[link.source] for link in group], dtype=np.intp),
            blocked=np.array([is_blocked(link) for link in group], dtype=bool),
            throughput=np.array([throughput_weight(link) for link in group]),
            rates=np.array([0.0 if is_blocked(link) else throughput_of(link) or 0.0 for link in group]),
        )
        for destination, group in grouped.items()
    }


def throughput_weight(link: Link) -> float:
    """Return the weight of a link by measured throughput, or by closeness if there is no measurement
    (B35)."""
    measured = throughput_of(link)
    if measured is not None:
        return _WEIGHTS[bisect_left(_THROUGHPUTS, measured)]
    # A blocked link has closeness -1: the formula would give it more weight than the closest link.
    closeness = FARTHEST if is_blocked(link) else closeness_of(link)
    return 1 + (FARTHEST - closeness) / FARTHEST
