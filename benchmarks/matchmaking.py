"""A match-making cycle of 10,000 jobs over 1000 sites, beside a plain loop over the ClassAd library."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import classad2

from pilotage.model.documents.reasons import packed
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import Advertisement
from pilotage.policies.brokerage.matchmaking.cycle import Matchmaking
from pilotage.testing import NOW, federation, queue, task, world

T = TypeVar("T")

SITES, JOBS = 1000, 10_000
LOOPED = 100
"""Jobs of the plain loop, which meets all sites: 10,000 would take a minute."""

_THROTTLE = (
    "CurMatches < MaxJobs && JobsMatchedSinceLastAdvertisement + CurrentSubmittingJobs < MaxSubmittingJobs"
)


def figures() -> dict[str, float]:
    """Seconds of a cycle, of its reasons made ready to be stored, and bilateral matches a second."""
    plugin = Matchmaking()
    state = _world(most_memory=4)
    plugin.decide(state)
    decision, cycle = _timed(lambda: plugin.decide(state))
    _, reasons = _timed(lambda: packed(decision.choices))
    unlike = _world(most_memory=4000)
    _, distinct = _timed(lambda: plugin.decide(unlike))
    matches, loop = _timed(_loop)
    if not matches:
        raise ValueError("the plain loop matched nothing")
    return {
        "classad_cycle_s": cycle,
        "classad_cycle_unlike_s": distinct,
        "classad_reasons_s": reasons,
        "classad_matches_per_s": SITES * JOBS / cycle,
        "classad_plain_loop_matches_per_s": SITES * LOOPED / loop,
    }


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    made = call()
    return made, time.perf_counter() - began


def _world(most_memory: int) -> World:
    """Jobs of as many different needs of memory as are given, each its own task, of one of ten stations."""
    drawn = random.Random(1)
    names = [f"s{number:04}" for number in range(SITES)]
    house = federation(
        [queue(f"q-{name}", site=name) for name in names],
        storages={name: {"station": f"st{at % 10}"} for at, name in enumerate(names)},
    )
    sites = tuple(
        replace(
            site,
            max_jobs=10,
            max_submitting_jobs=5,
            attributes={
                "Memory": drawn.choice([1024, 2048, 4096, 8192]),
                "Disk": 1000 * drawn.randint(1, 1000),
                "Arch": "X86_64",
            },
        )
        for site in house.sites
    )
    asked = [
        task(
            number,
            stations=(f"st{number % 10}",),
            ram=512 + 3500 * drawn.randrange(most_memory) / most_memory,
            site_requirements="TARGET.Memory >= MY.RequestMemory",
            site_rank="TARGET.Memory",
        )
        for number in range(1, JOBS + 1)
    ]
    ads = [_advertisement(name, drawn.randint(0, 5), drawn.randint(0, 3)) for name in names]
    return world(replace(house, sites=sites), *asked, advertisements=ads)


def _advertisement(site: str, pilots: int, matched: int) -> Advertisement:
    return Advertisement(
        site=site,
        source="native",
        number=1,
        time=NOW - 1,
        pilots=pilots,
        submitting=0,
        matched=matched,
    )


def _loop() -> int:
    """Match jobs with all sites as a program does that knows nothing of either."""
    drawn = random.Random(1)
    sites = [
        classad2.ClassAd(
            f'[ StationName = "st{number % 10}"; Memory = {drawn.choice([1024, 2048, 4096, 8192])}; '
            f"CurMatches = {drawn.randint(0, 8)}; JobsMatchedSinceLastAdvertisement = 1; MaxJobs = 10; "
            f"CurrentSubmittingJobs = 0; MaxSubmittingJobs = 5; Requirements = {_THROTTLE} ]"
        )
        for number in range(SITES)
    ]
    jobs = [
        classad2.ClassAd(
            f"[ RequestMemory = {drawn.choice([512, 1024, 2048, 4096])}; "
            f'Requirements = TARGET.StationName =?= "st{number % 10}" && TARGET.Memory >= MY.RequestMemory ]'
        )
        for number in range(LOOPED)
    ]
    return sum(job.symmetricMatch(site) for job in jobs for site in sites)
