"""Queue attributes as columns of shape (Q,), in the order of the queues' names."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, open_at, without_payload_error
from pilotage.model.circuit_breakers.jobs import open_queues
from pilotage.model.documents.world import JobCount, LinkCount, QueueReport, World
from pilotage.model.records.advertisements import HeldPlaces
from pilotage.model.records.federation import Blacklisting, Federation, Queue, Storage
from pilotage.model.records.states import JobState
from pilotage.model.rules.site_limits import NOBODY, all_bounds, jobs_there
from pilotage.model.rules.sources import Sources
from pilotage.model.values.fairshare import FairsharePolicy, FairshareWork
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.link_weights import IncomingLinks, incoming_links
from pilotage.policies.brokerage.engine.offers import Offers
from pilotage.policies.brokerage.engine.queue_attributes import attributes, fairshares, number_column
from pilotage.policies.brokerage.engine.queues_together import QueuesTogether
from pilotage.policies.brokerage.engine.reach import Reach
from pilotage.policies.brokerage.engine.site_ads import SiteAd, requiring_ads

OPERATIONS: tuple[Blacklisting, ...] = ("read_lan", "write_lan", "read_wan", "write_wan")
_COUNTED = (
    JobState.DEFINED,
    JobState.ASSIGNED,
    JobState.ACTIVATED,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.TRANSFERRING,
)


class Throttled(NamedTuple):
    """The tightest limit of a site in jobs, and the number of our jobs that count against it (M5)."""

    limit: int
    jobs: int


class SpaceColumns(NamedTuple):
    """Free space at each queue's storage, in GB (B18).

    ``reported_at`` is the time of the storage's report in s since 1970; NaN if unknown or declared.
    """

    free: Column
    reported_at: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveColumns:
    """Columns that change every cycle: jobs by state, reports, files in transfer between sites.

    - ``by_share``: the jobs of each global share.
    - Times, and ``disk_io``, are NaN without any report.
    - ``link_files``: live transfers by the codes of destination site and source site. ``arriving``: transfers
      of outputs from other sites.
    - ``no_pilots``: queues where this system cannot start pilots. ``pilots_problem``: the reason.
    - Open circuit breakers: ``breakers`` of queues (F2), ``storage_breakers`` of storages (F4),
      ``lacking_nodes`` of queues with nodes that lack programs or GPUs (B14).
    - Sites: ``throttled``, limits and jobs of sites with limits (M8), by queue; ``held_places``, places
      reserved for waiting jobs; ``site_ads``, the ads of sites with requirements.
    """

    time: float
    jobs: Mapping[JobState, Column]
    by_share: Mapping[str, Mapping[JobState, Column]]
    batch_workers: Column
    last_pilot: Column
    last_start: Column
    first_submission: Column
    calls_elsewhere: Mask
    activated_since: Column
    disk_io: Column
    no_pilots: Mask
    pilots_problem: Column
    link_files: Mapping[int, Mapping[int, int]]
    arriving: Mapping[int, int]
    breakers: tuple[CircuitBreaker, ...]
    storage_breakers: tuple[CircuitBreaker, ...]
    lacking_nodes: tuple[CircuitBreaker, ...]
    throttled: Mapping[int, Throttled]
    held_places: tuple[HeldPlaces, ...]
    site_ads: tuple[SiteAd, ...]
    space: SpaceColumns

    def of_share(self, share: str) -> Mapping[JobState, Column]:
        """Return the jobs of one global share at each queue, by state (B30 to B36)."""
        if share in self.by_share:
            return self.by_share[share]
        return {state: np.zeros_like(counted) for state, counted in self.jobs.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueColumns:
    """All queues of a federation by attribute. ``live`` is the cycle's part (see ``during``).

    Codes are indexes: ``storage`` into ``storages``, ``connectivity_code`` into ``connectivity_kinds``,
    ``vo_code`` into ``vo_kinds``, ``fairshare_code`` into ``fairshare_kinds``. ``no_share`` returns which of
    ``fairshare_kinds`` refuse some work (B10). ``read_storages`` has the codes of the queues' storages.
    ``blacklists`` has, for each operation, a mask of queues with a storage that forbids it. ``storage_site``
    is the site of the queue's storage, even if the queue is at another site. ``slot_cores`` are the cores
    that share its work directory. Limits are as declared; 0 means none. ``max_disk_io``,
    ``transferring_limit`` and the storage's ``storage_min_free`` are NaN if a constant replaces them,
    ``core_power`` if it is unknown. ``num_slots`` is -1 if none are declared. ``own_slots`` are then the
    slots of this system's own pilots; they are 0 if ``num_slots`` are declared. ``together`` has the queues
    that count together (B2).
    """

    federation: Federation
    names: Column
    index: Mapping[str, int]
    sites: Mapping[str, int]
    storages: Mapping[str, int]
    storage_sites: Codes
    storage_tape: Mask
    read_storages: frozenset[int]
    reach: Reach
    links: Mapping[int, IncomingLinks]
    children: Mapping[str, tuple[int, ...]]
    site_names: Column
    storage: Codes
    storage_site: Codes
    storage_min_free: Column
    test: Mask
    unified: Mask
    status: Column
    online: Mask
    draining: Mask
    cores: Column
    gpus: Column
    slot_cores: Column
    core_power: Column
    min_memory: Column
    max_memory: Column
    max_workdir: Column
    min_walltime: Column
    max_walltime: Column
    max_disk_io: Column
    direct_access: Mask
    connectivity: Column
    connectivity_kinds: tuple[str, ...]
    connectivity_code: Codes
    vos: Column
    vo_kinds: tuple[tuple[str, ...], ...]
    vo_code: Codes
    fairshare: Column
    fairshare_kinds: tuple[FairsharePolicy, ...]
    fairshare_code: Codes
    no_share: Callable[[FairshareWork], tuple[bool, ...]]
    offers: Offers
    event_service: Column
    transferring_limit: Column
    opportunistic: Mask
    num_slots: Column
    own_slots: Column
    own_pilots: Mask
    forwards: Mask
    together: QueuesTogether
    blacklists: Mapping[Blacklisting, Mask]
    live: LiveColumns

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, federation: Federation) -> "QueueColumns":
        """Return the columns of a federation without any live counts.

        Its references were checked when it was read.
        """
        queues = sorted(federation.queues, key=lambda queue: queue.name)
        storages = {storage.name: storage for storage in federation.storages}
        sites = {name: code for code, name in enumerate(sorted(site.name for site in federation.sites))}
        codes = {name: code for code, name in enumerate(sorted(storages))}
        ordered = [storages[name] for name in sorted(storages)]
        storage = np.array([codes[queue.storage] for queue in queues], dtype=np.intp)
        storage_sites = np.array([sites[item.site] for item in ordered], dtype=np.intp)
        blacklists = {operation: _blacklist(ordered, operation) for operation in OPERATIONS}
        index = {queue.name: position for position, queue in enumerate(queues)}
        return cls(
            federation=federation,
            index=index,
            sites=sites,
            storages=codes,
            storage_sites=storage_sites,
            storage_tape=np.array([item.tape for item in ordered], dtype=bool),
            read_storages=frozenset(storage.tolist()),
            reach=Reach(Sources(federation), ordered),
            links=incoming_links(federation.links, sites),
            children=_children(queues),
            storage=storage,
            storage_site=storage_sites[storage],
            storage_min_free=number_column(item.storage_min_free for item in ordered)[storage],
            blacklists={operation: mask[storage] for operation, mask in blacklists.items()},
            live=_nothing_lives(len(queues)),
            offers=Offers(queues, federation),
            together=QueuesTogether.of(federation, index),
            **attributes(queues),
            **fairshares(queues),
        )

    def storage_of(self, queue: int) -> str:
        """Return the name of a queue's storage."""
        return self.reach.names[int(self.storage[queue])]

    def reading(self, inputs: Iterable[tuple[int, ...]]) -> Mask:
        """Return the queues, (Q,), with pilots that may read inputs on these storages (E3)."""
        masks = [self.reach.readers(holders)[self.storage] for holders in inputs]
        readable: Mask = np.logical_and.reduce(masks) if masks else np.ones(len(self), dtype=bool)
        return readable

    @property
    def sources(self) -> Sources:
        """Return the sources of files, which come last with an open circuit breaker (F4)."""
        sources, breakers = self.reach.sources, self.live.storage_breakers
        return replace(sources, breakers=breakers) if breakers else sources

    def during(self, world: World) -> "QueueColumns":
        """Return the same queues with the world's counts and reports."""
        by_share = self._jobs_by_share(world.job_counts)
        totals = {
            state: np.sum([counted[state] for counted in by_share.values()], axis=0) for state in _COUNTED
        }
        reports = {report.queue: report for report in world.queue_reports}
        queue_reports = [reports.get(name) or QueueReport(queue=name) for name in self.names]
        together = self.together
        live = LiveColumns(
            time=world.time,
            jobs=totals if by_share else _nothing_lives(len(self)).jobs,
            by_share=by_share,
            batch_workers=together.sum(
                np.array([report.batch_workers for report in queue_reports], dtype=float)
            ),
            last_pilot=together.latest(number_column(report.last_pilot for report in queue_reports)),
            last_start=together.latest(number_column(report.last_start for report in queue_reports)),
            first_submission=-together.latest(
                -number_column(report.first_submission for report in queue_reports)
            ),
            calls_elsewhere=np.array([report.calls_elsewhere for report in queue_reports], dtype=bool),
            activated_since=-together.latest(
                -number_column(report.activated_since for report in queue_reports)
            ),
            disk_io=self._disk_io(queue_reports, world.job_counts),
            no_pilots=np.array([report.pilots_possible is False for report in queue_reports], dtype=bool),
            pilots_problem=np.array([report.pilots_problem for report in queue_reports], dtype=object),
            link_files=self._files_by_link(world.link_counts),
            arriving=self._arriving(world.link_counts),
            breakers=self._breakers(world),
            storage_breakers=self._storage_breakers(world),
            lacking_nodes=self._of_these(open_at(world.lacking_nodes, world.time)),
            throttled=self._throttled(world),
            held_places=world.held_places,
            site_ads=requiring_ads(world),
            space=self._space(world),
        )
        return replace(self, live=live)

    def _disk_io(self, reports: Iterable[QueueReport], counts: Iterable[JobCount]) -> Column:
        """Return the mean disk I/O of running jobs at each queue and the queues that count together with it
        (B12)."""
        rates = number_column(report.disk_io for report in reports)
        if not self.together:
            return rates
        running = np.zeros(len(self))
        for row in counts:
            if row.state is JobState.RUNNING and row.queue in self.index:
                running[self.index[row.queue]] += row.jobs
        return self.together.mean(rates, running)

    def _throttled(self, world: World) -> dict[int, Throttled]:
        """Return the tightest limit and the jobs of sites with limits, by queue (M5, M8)."""
        bounds = all_bounds(world)
        there = jobs_there(self.federation, world.job_counts) if bounds else {}
        throttled = {}
        for queue in self.federation.queues if bounds else ():
            if (site_bounds := bounds.get(queue.site)) is not None:
                jobs, submitting = there.get(queue.site, NOBODY)
                counted = [
                    Throttled(limit, count)
                    for limit, count in ((site_bounds.jobs, jobs), (site_bounds.submitting, submitting))
                    if limit is not None
                ]
                throttled[self.index[queue.name]] = min(counted, key=lambda site: site.limit - site.jobs)
        return throttled

    def _space(self, world: World) -> SpaceColumns:
        spaces = world.free_spaces
        free_spaces = [spaces[name] for name in sorted(self.storages)]
        free = number_column(space.gigabytes for space in free_spaces)
        return SpaceColumns(
            # Unknown free space counts as enough.
            free=np.where(np.isnan(free), np.inf, free)[self.storage],
            reported_at=number_column(space.measured_at for space in free_spaces)[self.storage],
        )

    def _breakers(self, world: World) -> tuple[CircuitBreaker, ...]:
        breakers = open_queues(world.failures, world.federation, world.time)
        return tuple(without_payload_error(breaker) for breaker in self._of_these(breakers))

    def _of_these(self, breakers: Iterable[CircuitBreaker]) -> tuple[CircuitBreaker, ...]:
        return tuple(breaker for breaker in breakers if breaker.place[0] in self.index)

    def _storage_breakers(self, world: World) -> tuple[CircuitBreaker, ...]:
        storages = {"", *self.storages}
        breakers = open_at(world.storage_breakers, world.time)
        return tuple(breaker for breaker in breakers if storages.issuperset(breaker.place))

    def _jobs_by_share(self, counts: Iterable[JobCount]) -> dict[str, dict[JobState, Column]]:
        jobs_by_share: dict[str, dict[JobState, Column]] = {}
        for row in counts:
            place = self.index.get(row.queue)
            if place is not None and row.state in _COUNTED:
                if row.share not in jobs_by_share:
                    jobs_by_share[row.share] = {state: np.zeros(len(self)) for state in _COUNTED}
                for queue in self.together.queues(place):
                    jobs_by_share[row.share][row.state][queue] += row.jobs
        return jobs_by_share

    def _arriving(self, counts: Iterable[LinkCount]) -> dict[int, int]:
        """Return the number of output files in transfer to each site from other sites (B7); if unknown, of
        all files."""
        sites = self.storage_sites.tolist()
        files: dict[int, int] = {}
        for row in counts:
            if row.source in self.storages and row.destination in self.storages:
                source, site = sites[self.storages[row.source]], sites[self.storages[row.destination]]
                if source != site:
                    files[site] = files.get(site, 0) + (row.files if row.uploads is None else row.uploads)
        return files

    def _files_by_link(self, counts: Iterable[LinkCount]) -> dict[int, dict[int, int]]:
        sites = self.storage_sites.tolist()
        files: dict[int, dict[int, int]] = {}
        for row in counts:
            if row.source in self.storages and row.destination in self.storages:
                source = sites[self.storages[row.source]]
                arriving = files.setdefault(sites[self.storages[row.destination]], {})
                arriving[source] = arriving.get(source, 0) + row.files
        return files


def _nothing_lives(queues: int) -> LiveColumns:
    unknown = np.full(queues, np.nan)
    return LiveColumns(
        time=0.0,
        jobs={state: np.zeros(queues) for state in _COUNTED},
        by_share={},
        batch_workers=np.zeros(queues),
        last_pilot=unknown,
        last_start=unknown,
        first_submission=unknown,
        calls_elsewhere=np.zeros(queues, dtype=bool),
        activated_since=unknown,
        disk_io=unknown,
        no_pilots=np.zeros(queues, dtype=bool),
        pilots_problem=np.full(queues, "", dtype=object),
        link_files={},
        arriving={},
        breakers=(),
        storage_breakers=(),
        lacking_nodes=(),
        throttled={},
        held_places=(),
        site_ads=(),
        space=SpaceColumns(free=np.full(queues, np.inf), reported_at=unknown),
    )


def _blacklist(storages: list[Storage], operation: Blacklisting) -> Mask:
    return np.array([operation in storage.blacklisted for storage in storages], dtype=bool)


def _children(queues: list[Queue]) -> dict[str, tuple[int, ...]]:
    children: dict[str, tuple[int, ...]] = {}
    for position, queue in enumerate(queues):
        if queue.parent:
            children[queue.parent] = (*children.get(queue.parent, ()), position)
    return children


class DeclaredColumns:
    """The columns of a federation's queues, built once per document.

    It is safe for several threads, each with its own document.
    """

    def __init__(self) -> None:
        self._declared: tuple[Federation, QueueColumns] | None = None

    def of(self, federation: Federation) -> QueueColumns:
        """Return the columns of this document."""
        declared = self._declared
        if declared is None or declared[0] is not federation:
            declared = self._declared = (federation, QueueColumns.of(federation))
        return declared[1]
