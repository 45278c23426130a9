"""Guards: checks of every brokerage on status (B4), VOs (F1), breakers (F2, F4), and sites' limits and
requirements (M8)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from pilotage.policies.brokerage.engine import local_checks
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.check import NEVER, OPENED, Check, Verdict, check
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.site_ads import SiteAd
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import FactsDraft, examine, mask_of

Decide = TypeVar("Decide", bound=Callable[..., object])


def guarded(decide: Decide) -> Decide:
    """Mark a ``decide`` that applies these guards, so that they are not applied again."""
    decide.is_guarded = True  # type: ignore[attr-defined]
    return decide


def is_guarded(decide: Callable[..., object]) -> bool:
    """Return whether a ``decide`` is marked as guarded."""
    return getattr(decide, "is_guarded", False)


@check("B2", "unified queue", "operator", lifted_by="its pseudo-queues take jobs in its place")
def unified(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse unified queues: their pseudo-queues take the jobs."""
    return Verdict(queues.unified[None, :], "a pseudo-queue", "unified")


@check("B4", "status", "operator", reads=("named",), lifted_by=OPENED)
def status(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues that are online or standby, unless the task names the queue.

    The choice of a queue at the input for merging is not a naming (B3). Refuse draining queues even if named.
    """
    return Verdict((~tasks.named | queues.draining) & ~queues.online, "online", queues.status)


@check(
    "M8",
    "site's throttle",
    "wait",
    unit="our jobs at the site",
    lifted_by="jobs there end, or its batch system answers",
)
def throttle(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues of sites with fewer jobs than their limits.

    A job counts from its match to its end, at any pilot.
    """
    if not queues.live.throttled:
        return NEVER
    limits, jobs = _throttled(queues)
    return Verdict((jobs >= limits)[None, :], limits[None, :], jobs)


@check(
    "M8",
    "site's places before the next cycle",
    "wait",
    reads=("priority",),
    unit="places",
    lifted_by="the next match-making cycle",
)
def held_places(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues of sites with more free places than are held for jobs of higher priority, until the next
    match-making cycle (M7)."""
    reservations = queues.live.held_places
    if not reservations or not queues.live.throttled:
        return NEVER
    limits, jobs = _throttled(queues)
    free_places, waiting = limits - jobs, np.zeros((len(tasks), len(queues)))
    for reservation in reservations:
        waiting += (tasks.priority < reservation.priority) * np.where(
            queues.site_names == reservation.site, reservation.jobs, 0
        )
    # The throttle refuses full sites.
    return Verdict((waiting >= free_places) & (free_places > 0) & (waiting > 0), waiting + 1, free_places)


def _throttled(queues: QueueColumns) -> tuple[Column, Column]:
    """Return the tightest limit of each queue's site, and the number of jobs that count against it (Q,)."""
    limits, jobs = np.full(len(queues), np.inf), np.zeros(len(queues))
    for queue, (limit, count) in queues.live.throttled.items():
        limits[queue], jobs[queue] = limit, count
    return limits, jobs


@check(
    "M8",
    "site's requirements",
    "operator",
    reads=("site_request",),
    lifted_by="the site asks for something else",
)
def site_requirements(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues if the site's own Requirements are true for the jobs, by its current ad (M4)."""
    ads = queues.live.site_ads
    if not ads:
        return NEVER
    places = {ad.name: place for place, ad in enumerate(ads)}
    at = np.array([places.get(name, len(ads)) for name in queues.site_names], dtype=np.intp)
    texts = [" && ".join(demand.part.text for demand in ad.demands) for ad in ads]
    groups = [tasks.tables.site_requests[code] for code in tasks.site_request[:, 0]]
    have = np.array([*texts, ""], dtype=object)[at]
    try:
        refused = _refusing(ads, groups)
    except ImportError:
        mend = "pilotage[matchmaking] is installed on the server, which lacks the ClassAd library"
        return Verdict((at < len(ads))[None, :], "true", have, lifted_by=mend)
    return Verdict(refused[:, at], "true", have)


def _refusing(ads: tuple[SiteAd, ...], groups: list[Group]) -> Mask:
    """Return the sites where the requirements are not true; the last column is for queues of other sites (T,
    S + 1)."""
    # The library is an optional dependency.
    from pilotage.policies.brokerage.engine.advertised_sites import AdvertisedSites
    from pilotage.policies.brokerage.engine.job_ads import JobAd, job_ad
    from pilotage.policies.brokerage.engine.site_matches import Matchmaker

    sites = AdvertisedSites(ads)
    matchmaker = Matchmaker(sites)
    refused: Mask = np.zeros((len(groups), len(ads) + 1), dtype=bool)
    for row, group in enumerate(groups):
        sites.task = group.task.id
        request = JobAd(job_ad(group).attributes, parts=(), rank=None)
        refused[row, :-1] = ~matchmaker.match(request).candidates(sites)
    return refused


LIMITS: tuple[Check, ...] = (throttle, held_places, site_requirements)
"""Guards of sites (M8)."""

GUARDS: tuple[Check, ...] = (unified, status, *local_checks.CHECKS, *LIMITS)
"""All guards."""


def open_queues(groups: Sequence[Group], queues: QueueColumns) -> Mask:
    """Return the queues that no guard refuses to groups of similar jobs (T, Q)."""
    if not groups:
        return np.zeros((0, len(queues)), dtype=bool)
    examination = examine(GUARDS, TaskColumns.of(groups, queues), queues, FactsDraft(queues))
    return ~mask_of(examination.refused(np.arange(len(groups))), len(queues))
