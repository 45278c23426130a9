"""The ClassAd of each site: its advertisement, its declared attributes, and its counts (M2, M5, M6)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pilotage.model.documents.decision import Label
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import (
    PERIODS,
    Advertisement,
    Constant,
    current,
    usable,
)
from pilotage.model.records.federation import Federation, Queue, Site
from pilotage.model.records.observations import ServerReport
from pilotage.model.rules.site_limits import NOBODY, JobsThere, asked_sites, bounds, jobs_there, limits
from pilotage.model.rules.stations import stations_of, told_stations
from pilotage.model.values.classad import WORLD_CHANCE, WORLD_TIME, ClassAdError, Subexpression, read
from pilotage.model.values.phrases import moment

_ADDRESSES = ("url", "endpoint", "host", "collector", "schedd", "context")
"""Options of adapters that locate a computing element. The first one that is set counts."""

_PLACES = ("partition", "queue", "namespace")
"""Options that name a part of a computing element."""

_SECRET = re.compile(r"(?<=//)[^/@]*@|[?#].*$")
"""The parts of a URL that may hold a password: the user before the host, and the query."""

CUR_MATCHES, MATCHED = "CurMatches", "JobsMatchedSinceLastAdvertisement"
CURRENT, SUBMITTING, PENDING = "CurrentJobs", "CurrentSubmittingJobs", "PendingJobs"
MOVING = frozenset(name.lower() for name in (CUR_MATCHES, MATCHED, CURRENT, SUBMITTING, PENDING))
"""Attributes that change with matches, in lower case."""

_JOBS = f"{CUR_MATCHES} < MaxJobs"
_SIMPLE = "CurrentJobs < MaxJobs"
_SUBMITTING = f"{MATCHED} + CurrentSubmittingJobs < MaxSubmittingJobs"
_PENDING = f"PendingJobs + {MATCHED} < MaxPendingJobs"


@dataclass(frozen=True, slots=True)
class SiteDemand:
    """A part of a site's requirements, as a refusal shows it."""

    part: Subexpression
    label: Label


@dataclass(frozen=True, slots=True)
class SiteAd:
    """The ad of a site. ``stale`` is the reason why it cannot match at all; empty if it can.

    ``there`` counts our jobs at the site now, ``room`` the further jobs that its limits allow. ``simple`` is
    true with the published simple throttle. ``moves`` is true if its own requirements read the number of
    matches.
    """

    name: str
    attributes: Mapping[str, Constant]
    demands: tuple[SiteDemand, ...]
    advertisement: Advertisement | None
    stale: str
    there: JobsThere = NOBODY
    room: int = 0
    simple: bool = False
    moves: bool = False

    def counts(self, matched: int) -> dict[str, int]:
        """Return the counts of M5 after that many more matches: our jobs now, and others' jobs as last
        advertised.

        CurMatches = CurrentJobs + JobsMatchedSinceLastAdvertisement. The second term counts matched jobs that
        no pilot runs yet, because a job leaves submission when it runs or ends.
        """
        advertisement = self.advertisement
        if advertisement is None:
            return {}
        jobs, submitting = self.there.jobs + advertisement.other_jobs, self.there.submitting
        since = 0 if self.simple else min(advertisement.matched, submitting)
        # The simple throttle does not read matches: the counts that it reads include them.
        counted = matched if self.simple else -since
        return {
            CURRENT: jobs + counted,
            SUBMITTING: submitting + advertisement.other_submitting_jobs + counted,
            PENDING: submitting + advertisement.other_pending_jobs + counted,
            CUR_MATCHES: jobs + matched,
            MATCHED: 0 if self.simple else since + matched,
        }

    def text(self) -> str:
        """Return the ad in ClassAd syntax, for people."""
        attributes = {**self.attributes, **self.counts(0)}
        lines = [f"  {name} = {written(value)};" for name, value in attributes.items()]
        requirements = " && ".join(f"({demand.part.text})" for demand in self.demands) or "true"
        return "\n".join(["[", *lines, f"  Requirements = {requirements}", "]"])


def written(value: Constant) -> str:
    """Return a constant in ClassAd syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "{ " + ", ".join(map(written, value)) + " }"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


def site_ads(world: World) -> list[SiteAd]:
    """Return the ad of every site with a queue, in order of names. A fault in an ad makes only its site stale
    (M2)."""
    advertisements = {ad.site: ad for ad in world.advertisements if ad.time}
    polled_sites = asked_sites(world.federation)
    # A separate random stream: drawing sites and queues must not depend on the number of ads.
    from numpy.random import default_rng  # a server without work has no NumPy

    chances = default_rng([world.seed, 2])
    stations = stations_of(world.federation)
    there = jobs_there(world.federation, world.job_counts)
    silences = _silences(world)
    ads = []
    for site, queues in _sites(world.federation):
        world_attributes: dict[str, Constant] = {
            WORLD_TIME: int(world.time),
            WORLD_CHANCE: float(chances.random()),
        }
        ad = advertisements.get(site.name)
        usable_attributes, faults = _usable_attributes(site, ad)
        stale = faults or _stale(ad, world, silences.get(site.name, ""), site.name in polled_sites)
        attributes = (
            _declared(site, queues, stations[site.name], usable_attributes)
            | usable_attributes
            | world_attributes
        )
        ads.append(_site_ad(site, ad, attributes, stale, there.get(site.name, NOBODY)))
    return ads


def requiring_ads(world: World) -> tuple[SiteAd, ...]:
    """Return the ads of sites with requirements, without the demands of throttles (M8).

    Requirements count even if an ad is stale.
    """
    required = [*(site.requirements for site in world.federation.sites)]
    required += [ad.requirements for ad in world.advertisements]
    if not any(required):
        return ()
    ads = (
        replace(ad, demands=tuple(demand for demand in ad.demands if demand.label.rule != "M6"), stale="")
        for ad in site_ads(world)
    )
    return tuple(ad for ad in ads if ad.demands)


def _usable_attributes(site: Site, advertisement: Advertisement | None) -> tuple[dict[str, Constant], str]:
    """Return the attributes set by operators and the site, by Pilotage's names, and a text on faults in
    them."""
    attributes, faults = usable(site.attributes, advertisement.attributes if advertisement else {})
    words = "; ".join(f"{name} {fault}" for name, fault in sorted(faults.items()))
    return attributes, f"its advertisement cannot be used: {words}"[:400] if faults else ""


def _silences(world: World) -> Mapping[str, str]:
    """Return the errors of the last calls to sites' batch systems, by site (M2)."""
    sites = {queue.name: queue.site for queue in world.federation.queues}
    failed: dict[str, ServerReport] = {}
    for report in world.server_reports:
        if report.error and report.queue in sites:
            failed.setdefault(sites[report.queue], report)
    return {site: f"queue {report.queue}: {report.error}" for site, report in failed.items()}


def _sites(federation: Federation) -> Iterator[tuple[Site, list[Queue]]]:
    queues: dict[str, list[Queue]] = {}
    for queue in sorted(federation.queues, key=lambda queue: queue.name):
        queues.setdefault(queue.site, []).append(queue)
    for site in sorted(federation.sites, key=lambda site: site.name):
        if site.name in queues:
            yield site, queues[site.name]


def _site_ad(
    site: Site,
    advertisement: Advertisement | None,
    attributes: dict[str, Constant],
    stale: str,
    there: JobsThere,
) -> SiteAd:
    attributes |= limits(site, advertisement)
    if advertisement is not None:
        attributes |= {"AdvertisedAt": int(advertisement.time), "PilotSlots": advertisement.pilot_slots}
    attributes |= {"Name": site.name, "MyType": "Site"}
    demands = tuple(_demands(site, advertisement, attributes))
    return SiteAd(
        name=site.name,
        attributes=attributes,
        demands=demands,
        advertisement=advertisement,
        stale=stale,
        there=there,
        room=bounds(site, advertisement).room(there) if advertisement else 0,
        simple=site.throttle == "current",
        moves=any(
            reference.name in MOVING
            for demand in demands
            if demand.label.rule != "M6"
            for reference in demand.part.references
        ),
    )


def _stale(advertisement: Advertisement | None, world: World, error: str, is_asked: bool) -> str:
    period = world.federation.brokerage.advertise_period
    if current(advertisement, world.time, period):
        return ""
    failure = f", {error[:300]}" if error else ""
    if advertisement is None:
        return f"its batch system has not answered yet{failure}" if is_asked else "never advertised"
    old = (
        f"advertised {world.time - advertisement.time:.0f} s ago, more than {PERIODS} periods of {period:g} s"
    )
    if advertisement.source == "pushed":
        return old
    return f"{old}: its batch system has not answered since {moment(advertisement.time)}{failure}"


def _declared(
    site: Site, queues: list[Queue], stations: tuple[str, ...], site_attributes: Mapping[str, Constant]
) -> dict[str, Constant]:
    """Return attributes of a site from the federation: the largest value of its queues; 0 means no limit.

    Stations named by operators or the site replace the stations of its storages.
    """
    named = told_stations(site_attributes) or stations
    addresses = tuple(dict.fromkeys(entry_points(queues)))
    return {
        "StationNames": named,
        "StationName": named[0] if named else "",
        "EntryPoints": addresses,
        "EntryPoint": addresses[0] if addresses else "",
        "MonitoringUrl": site.monitoring_url,
        "Nucleus": site.nucleus,
        "Queues": tuple(queue.name for queue in queues),
        "Cpus": max(queue.cores for queue in queues),
        "Gpus": max(queue.gpus_of_slot for queue in queues),
        "MaxMemory": _largest_limit([queue.max_memory for queue in queues]),
        "MaxWalltime": _largest_limit([queue.max_walltime for queue in queues]),
    }


def _largest_limit(limits: list[float]) -> float:
    return 0.0 if 0 in limits else float(max(limits))


def _demands(
    site: Site, advertisement: Advertisement | None, attributes: Mapping[str, Constant]
) -> Iterator[SiteDemand]:
    if "MaxJobs" in attributes:
        yield _throttle(_SIMPLE if site.throttle == "current" else _JOBS)
    if "MaxSubmittingJobs" in attributes:
        yield _throttle(_SUBMITTING)
    if "MaxPendingJobs" in attributes:
        yield _throttle(_PENDING)
    yield from required(site.requirements)
    if advertisement is not None:
        yield from required(advertisement.requirements)


def _throttle(text: str) -> SiteDemand:
    label = Label(rule="M6", name=text, mend="wait", lifted_by="jobs there end")
    return SiteDemand(read(text, of_site=True).whole, label)


def required(text: str) -> Iterator[SiteDemand]:
    """Yield the parts of a site's own Requirements (M4). A part that cannot be parsed is never true."""
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


def entry_points(queues: Iterable[Queue]) -> Iterator[str]:
    """Yield the address of each server of the queues' computing elements, as ``KIND://HOST/PART`` or a URL.

    Without a host, it is a batch system on the server's machine.
    """
    for queue in queues:
        element = queue.computing_element
        if element is not None:
            for server in element.servers or (None,):
                options = {**element.options, **(server.options if server else {})}
                yield _address(element.kind, options)


def _address(kind: str, options: Mapping[str, Any]) -> str:
    endpoint = next((str(options[name]) for name in _ADDRESSES if options.get(name)), "localhost")
    address = _SECRET.sub("", endpoint) if "://" in endpoint else f"{kind}://{endpoint}"
    part = next((str(options[name]) for name in _PLACES if options.get(name)), "")
    return f"{address.rstrip('/')}/{part}" if part else address
