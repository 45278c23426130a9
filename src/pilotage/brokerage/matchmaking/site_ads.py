"""The ClassAd of each site: what it advertised, what is declared of it, and its counts (M2, M5, M6)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pilotage.model.advertisements import PERIODS, Advertisement, Constant, current
from pilotage.model.classad import WORLD_CHANCE, WORLD_TIME, ClassAdError, Subexpression, read
from pilotage.model.decision import Label
from pilotage.model.federation import Federation, Queue, Site
from pilotage.model.site_limits import counts, limits
from pilotage.model.stations import stations_of
from pilotage.model.world import World

CUR_MATCHES, MATCHED = "CurMatches", "JobsMatchedSinceLastAdvertisement"
MOVING = frozenset([CUR_MATCHES.lower(), MATCHED.lower()])
"""Attributes that move as jobs are matched, in lower case."""

_JOBS = f"{CUR_MATCHES} < MaxJobs"
_SIMPLE = "CurrentJobs < MaxJobs"
_SUBMITTING = f"{MATCHED} + CurrentSubmittingJobs < MaxSubmittingJobs"
_PENDING = f"PendingJobs + {MATCHED} < MaxPendingJobs"


@dataclass(frozen=True, slots=True)
class SiteDemand:
    """A part of what a site requires, as a refusal tells it."""

    part: Subexpression
    label: Label


@dataclass(frozen=True, slots=True)
class SiteAd:
    """The ad of a site. ``stale`` says why it cannot match at all; empty where it can.

    ``limit`` is the most matches since its advertisement that its throttle takes (M6); None where its other
    requirements move with the matches too, so that no number tells it.
    """

    name: str
    attributes: Mapping[str, Constant]
    demands: tuple[SiteDemand, ...]
    advertisement: Advertisement | None
    stale: str
    limit: int | None

    def counts(self, matched: int) -> dict[str, int]:
        """CurMatches and what was matched since the advertisement, with so many more matches (M5)."""
        told = self.advertisement
        if told is None:
            return {}
        handed = max(told.matched + matched, told.handed)
        return {CUR_MATCHES: told.current_jobs + handed, MATCHED: handed}

    def text(self) -> str:
        """The ad as people read and exchange it."""
        lines = [f"  {name} = {written(value)};" for name, value in self.attributes.items()]
        lines += [f"  {name} = {count};" for name, count in self.counts(0).items()]
        asked = " && ".join(f"({demand.part.text})" for demand in self.demands) or "true"
        return "\n".join(["[", *lines, f"  Requirements = {asked}", "]"])


def written(value: Constant) -> str:
    """A constant as ClassAds write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "{ " + ", ".join(map(written, value)) + " }"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


def site_ads(world: World) -> list[SiteAd]:
    """The ad of every site that has a queue, by name."""
    told = {one.site: one for one in world.advertisements}
    # A stream of its own: drawing sites and queues must not depend on how many ads there are.
    chances = np.random.default_rng([world.seed, 2])
    stations = stations_of(world.federation)
    ads = []
    for site, queues in _sites(world.federation):
        own: dict[str, Constant] = {WORLD_TIME: int(world.time), WORLD_CHANCE: float(chances.random())}
        own["StationNames"] = stations[site.name]
        ads.append(_site_ad(site, queues, told.get(site.name), world, own))
    return ads


def _sites(federation: Federation) -> Iterator[tuple[Site, list[Queue]]]:
    queues: dict[str, list[Queue]] = {}
    for queue in sorted(federation.queues, key=lambda queue: queue.name):
        queues.setdefault(queue.site, []).append(queue)
    for site in sorted(federation.sites, key=lambda site: site.name):
        if site.name in queues:
            yield site, queues[site.name]


def _site_ad(
    site: Site,
    queues: list[Queue],
    told: Advertisement | None,
    world: World,
    own: dict[str, Constant],
) -> SiteAd:
    attributes = _declared(site, queues, own["StationNames"]) | dict(site.attributes)
    attributes |= dict(told.attributes) if told else {}
    attributes |= limits(site, told) | _counted(told) | own | {"Name": site.name, "MyType": "Site"}
    demands = tuple(_demands(site, told, attributes))
    return SiteAd(
        name=site.name,
        attributes=attributes,
        demands=demands,
        advertisement=told,
        stale=_stale(told, world),
        limit=_limit(demands, attributes) if told else 0,
    )


def _stale(told: Advertisement | None, world: World) -> str:
    period = world.federation.brokerage.advertise_period
    if current(told, world.time, period):
        return ""
    if told is None:
        return "never advertised"
    return f"advertised {world.time - told.time:.0f} s ago, more than {PERIODS} periods of {period:g} s"


def _declared(site: Site, queues: list[Queue], stations: tuple[str, ...]) -> dict[str, Constant]:
    """Attributes of a site from the federation: the most that any of its queues has; 0 is no limit."""
    elements = sorted({queue.computing_element.kind for queue in queues if queue.computing_element})
    return {
        "StationNames": stations,
        "StationName": stations[0] if stations else "",
        "EntryPoints": tuple(elements),
        "MonitoringUrl": site.monitoring_url,
        "Nucleus": site.nucleus,
        "Queues": tuple(queue.name for queue in queues),
        "Cpus": max(queue.cores for queue in queues),
        "Gpus": max(queue.gpus_of_slot for queue in queues),
        "MaxMemory": _most([queue.max_memory for queue in queues]),
        "MaxWalltime": _most([queue.max_walltime for queue in queues]),
    }


def _most(limits: list[float]) -> float:
    return 0.0 if 0 in limits else float(max(limits))


def _counted(told: Advertisement | None) -> dict[str, Constant]:
    return {**counts(told), "AdvertisedAt": int(told.time)} if told else {}


def _demands(
    site: Site, told: Advertisement | None, attributes: Mapping[str, Constant]
) -> Iterator[SiteDemand]:
    if "MaxJobs" in attributes:
        yield _throttle(_SIMPLE if site.throttle == "current" else _JOBS)
    if "MaxSubmittingJobs" in attributes:
        yield _throttle(_SUBMITTING)
    if "MaxPendingJobs" in attributes:
        yield _throttle(_PENDING)
    yield from required(site.requirements)
    if told is not None:
        yield from required(told.requirements)


def _throttle(text: str) -> SiteDemand:
    label = Label(rule="M6", name=text, mend="wait", lifted_by="jobs there end, and the site advertises anew")
    return SiteDemand(read(text, of_site=True).whole, label)


def required(text: str) -> Iterator[SiteDemand]:
    """The parts of a site's own Requirements (M4). What cannot be read is never true."""
    try:
        parts = read(text, of_site=True).parts if text else ()
    except ClassAdError as error:
        yield SiteDemand(read("false", of_site=True).whole, _of_site(f"unreadable Requirements: {error}"))
        return
    for part in parts:
        yield SiteDemand(part, _of_site(part.text))


def _of_site(text: str) -> Label:
    return Label(
        rule="M4",
        name=f"the site's {text[:300]}",
        mend="operator",
        lifted_by="the site asks for something else",
    )


def _limit(demands: tuple[SiteDemand, ...], attributes: Mapping[str, Constant]) -> int | None:
    """The number of matches since the advertisement that the published throttle bounds."""
    rooms = {
        _JOBS: ("MaxJobs", "CurrentJobs"),
        _SUBMITTING: ("MaxSubmittingJobs", "CurrentSubmittingJobs"),
        _PENDING: ("MaxPendingJobs", "PendingJobs"),
    }
    limits = [10**9]
    for demand in demands:
        if any(found.name in MOVING for found in demand.part.references):
            if demand.label.rule != "M6":
                return None
            most, there = rooms[demand.part.text]
            limits.append(int(attributes[most] - attributes[there]))
    return min(limits)
