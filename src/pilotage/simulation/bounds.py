"""Bounds of what any policy could reach: work as a fluid that all cores share, and fair parts of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pilotage.model.federation import UNKNOWN_CORE_POWER, Federation, GlobalShare

from .scenario import Scenario


def power(federation: Federation, scenario: Scenario) -> float:
    """HS23 of all cores that pilots may hold at the same time, the strongest of each site first."""
    by_site: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for queue in federation.queues:
        # A pseudo-queue's slots are those of its pilots; a core-less queue's pilots have one core a slot.
        strength = (queue.core_power or UNKNOWN_CORE_POWER) * max(1, queue.cores)
        element = queue.computing_element
        slots = element.max_pilots * element.pilot_slots if element else 0
        by_site[queue.site].append((strength, slots))
    return sum(_of_site(queues, scenario.site(site).slots) for site, queues in by_site.items())


def _of_site(queues: Iterable[tuple[float, int]], most: int | None) -> float:
    found, left = 0.0, float("inf") if most is None else float(most)
    for strength, slots in sorted(queues, reverse=True):
        found += strength * min(slots, left)
        left -= min(slots, left)
    return found


def fluid(arrivals: Iterable[tuple[float, float]], rate: float, until: float) -> float:
    """The work done by a time if all that has arrived, as (time, work), kept every core busy."""
    waiting = done = now = 0.0
    for at, work in (*sorted(one for one in arrivals if one[0] <= until), (until, 0.0)):
        served = min(waiting, rate * (at - now))
        done, waiting, now = done + served, waiting - served + work, at
    return done


def fair_parts(
    shares: Iterable[GlobalShare], asked: Mapping[str, float], total: float
) -> Mapping[str, float]:
    """Divide a total by the targets of shares; no share gets more than it asked for."""
    targets = {share.name: share.target for share in shares}
    left = {name: work for name, work in asked.items() if work > 0}
    parts = dict.fromkeys(asked, 0.0)
    while left and total > 1e-9:
        targeted = sum(targets.get(name, 0.0) for name in left)
        if targeted <= 0:
            break
        given = {name: total * targets.get(name, 0.0) / targeted for name in left}
        sated = [name for name in left if given[name] >= left[name]]
        for name in sated or list(left):
            parts[name] = min(left.pop(name), given[name])
            total -= parts[name]
        if not sated:
            break
    return parts
