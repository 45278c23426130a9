"""Bounds that no policy can beat: work as a fluid on all cores, divided fairly."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pilotage.model.records.federation import UNKNOWN_CORE_POWER, Federation, GlobalShare
from pilotage.simulation.scenario import Scenario

Arrived = tuple[float, str, float]
"""The arrival of work in s, its share, and the work in HS23 s."""

Slots = tuple[float, int]
"""The HS23 of a slot, and how many slots have that."""

HALVINGS = 40
"""Steps of a bisection: they fix a rate to one part in 10^12."""

NOISE = 1e-6
"""Share error below this comes from the bisection and counts as none."""


def power(federation: Federation, scenario: Scenario, widest: int) -> float:
    """Return the HS23 of all cores that payloads may use together, strongest cores of each site first.

    Jobs have up to ``widest`` cores. A queue with 0 cores takes any job, so each of its slots may have that
    many.
    """
    by_name = {queue.name: queue for queue in federation.queues}
    unified = {queue.parent for queue in federation.queues}
    together: dict[str, list[Slots]] = defaultdict(list)
    for queue in federation.queues:
        # Jobs run at pseudo-queues, never at their unified queue (B2).
        name = queue.parent if queue.parent in by_name else queue.name
        strength = (queue.core_power or UNKNOWN_CORE_POWER) * (queue.cores or widest)
        together[name] += [(strength, queue.own_slots)] if name != queue.name or name not in unified else []
    by_site: dict[str, list[Slots]] = defaultdict(list)
    for name, parts in together.items():
        by_site[by_name[name].site] += _strongest(parts, by_name[name].own_slots or None)
    return sum(
        strength * slots
        for site, parts in by_site.items()
        for strength, slots in _strongest(parts, scenario.site(site).slots)
    )


def _strongest(parts: Iterable[Slots], limit: int | None) -> Iterator[Slots]:
    """Yield at most so many slots, the strongest of these."""
    slots_left = sys.maxsize if limit is None else limit
    for strength, slots in sorted(parts, reverse=True):
        yield strength, min(slots, slots_left)
        slots_left -= min(slots, slots_left)


@dataclass(frozen=True, slots=True)
class Ideal:
    """A task if all jobs start at ``at`` on the strongest cores: work and duration (s) of each job."""

    at: float
    works: tuple[float, ...]
    lasts: tuple[float, ...]


def ideal(federation: Federation, at: float, works: Sequence[float], cores: int) -> Ideal:
    """Return the best possible outcome of a task with that many cores per job."""
    powers = (queue.core_power or UNKNOWN_CORE_POWER for queue in federation.queues)
    strength = max(powers, default=UNKNOWN_CORE_POWER) * max(1, cores)
    return Ideal(at, tuple(works), tuple(work / strength for work in works))


def earliest(tasks: Sequence[Ideal], rate: float, jobs: int) -> float:
    """Return the earliest time when any policy can finish that many jobs.

    All cores need some time for their work together, and each job lasts at least its duration.
    """
    if jobs < 1:
        return 0.0
    ends = sorted(task.at + lasts for task in tasks for lasts in task.lasts)
    needed = sum(sorted(work for task in tasks for work in task.works)[:jobs])
    return max(ends[min(jobs, len(ends)) - 1], _at_rate(tasks, rate, needed) if rate else 0.0)


def _at_rate(tasks: Sequence[Ideal], rate: float, needed: float) -> float:
    """Return when that much of the arrived work is done at this rate."""
    now = waiting = 0.0
    for at, works in sorted((task.at, sum(task.works)) for task in tasks):
        able = min(waiting, rate * (at - now))
        if able >= needed:
            break
        now, waiting, needed = at, waiting - able + works, needed - able
    return now + needed / rate


def shortest(tasks: Sequence[Ideal], rate: float) -> float:
    """Return the mean duration in s of the tasks, if each had all cores for itself."""
    times = [max(*task.lasts, sum(task.works) / rate if rate else 0.0) for task in tasks]
    return fmean(times) if times else 0.0


def fluid(
    shares: Sequence[GlobalShare], arrivals: Iterable[Arrived], rate: float, until: float
) -> Mapping[str, float]:
    """Return each share's work done until a time, if arrived work fills all cores under a fair division."""
    waiting: defaultdict[str, float] = defaultdict(float)
    done: defaultdict[str, float] = defaultdict(float)
    now = 0.0
    for at, share, work in (
        *sorted(arrived for arrived in arrivals if arrived[0] <= until),
        (until, "", 0.0),
    ):
        for name, served in fair_parts(shares, waiting, rate * (at - now)).items():
            done[name] += served
            waiting[name] -= served
        waiting[share] += work
        now = at
    return done


def fair_work(
    shares: Sequence[GlobalShare], arrivals: Sequence[Arrived], total: float, until: float
) -> Mapping[str, float]:
    """Return each share's fair part of a total until a time: the fluid's, at the rate that does this total.

    A share gets nothing before its work arrives. So work that other shares did until then is no error.
    """
    low, high = 0.0, sum(work for *_, work in arrivals)
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        parts = fluid(shares, arrivals, rate, until)
        low, high = (rate, high) if sum(parts.values()) < total else (low, rate)
    return fluid(shares, arrivals, high, until)


def share_error(
    shares: Sequence[GlobalShare], arrivals: Sequence[Arrived], done: Mapping[str, float], until: float
) -> float:
    """Return the fraction of the work done until a time for the wrong shares, given the arrived work."""
    total = sum(done.values())
    fair = fair_work(shares, arrivals, total, until) if total else {}
    off = sum(abs(done.get(name, 0.0) - fair.get(name, 0.0)) for name in {*done, *fair})
    error = off / 2 / total if total else 0.0
    return error if error > NOISE else 0.0


def fair_parts(
    shares: Iterable[GlobalShare], requests: Mapping[str, float], total: float
) -> Mapping[str, float]:
    """Divide a total by the shares' targets. No share gets more than it requested.

    Shares without a target divide the rest evenly.
    """
    targets = {share.name: share.target for share in shares}
    rests = {name: work for name, work in requests.items() if work > 0}
    parts = dict.fromkeys(requests, 0.0)
    while rests and total > 1e-9:
        weights = {name: targets.get(name, 0.0) for name in rests}
        if not any(weights.values()):
            weights = dict.fromkeys(rests, 1.0)
        targeted = sum(weights.values())
        division = {name: total * weights[name] / targeted for name in rests}
        sated = [name for name in rests if division[name] >= rests[name]]
        for name in sated or list(rests):
            parts[name] = min(rests.pop(name), division[name])
            total -= parts[name]
        if not sated:
            break
    return parts
