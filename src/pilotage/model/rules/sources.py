"""Links between sites, and the storages that a file can be moved from (B5, B19, B35)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import Federation, Link, Storage
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.types import BLOCKED, UNKNOWN_CLOSENESS


def throughput_of(link: Link) -> float | None:
    """Return the MB/s of the latest of the 1 h, 1 d and 1 w windows, each by itself (B35); None if
    unmeasured."""
    windows = (link.throughput_1h, link.throughput_1d, link.throughput_1w)
    return next((measured for measured in windows if measured is not None), None)


def closeness_of(link: Link | None) -> float:
    """Return the closeness of a link, or of sites without one: 0 (best) to 11, -1 if blocked."""
    return UNKNOWN_CLOSENESS if link is None or link.closeness is None else link.closeness


def is_blocked(link: Link | None) -> bool:
    """Return whether nothing may move over this link."""
    return closeness_of(link) == BLOCKED


@dataclass(frozen=True, slots=True)
class Sources:
    """The storages and links of a federation, for choosing sources.

    Brokerage (B19) and staging use the same object, so that staging can deliver everything that brokerage
    accepts. A storage with a tripped circuit breaker is the last choice (F4).
    """

    federation: Federation
    breakers: tuple[CircuitBreaker, ...] = ()
    _storages: dict[str, Storage] = field(init=False, default_factory=dict)
    _links: dict[tuple[str, str], Link] = field(init=False, default_factory=dict)
    _reached: dict[str, frozenset[str]] = field(init=False, default_factory=dict)
    _ranked: dict[tuple[frozenset[str], str], tuple[str, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._storages.update({storage.name: storage for storage in self.federation.storages})
        self._links.update({(link.source, link.destination): link for link in self.federation.links})

    def sites_reached(self, storage: str) -> frozenset[str]:
        """Return the sites that files of this storage can reach; none for an unknown storage.

        A storage blacklisted for reading gives no files, locally (``read_lan``) or to other sites
        (``read_wan``). Nothing goes over a blocked link (B5).
        """
        if storage not in self._reached:
            self._reached[storage] = self._reached_from(self._storages.get(storage))
        return self._reached[storage]

    def _reached_from(self, source: Storage | None) -> frozenset[str]:
        if source is None:
            return frozenset()
        return frozenset(site.name for site in self.federation.sites if self._gives(source, site.name))

    def _gives(self, source: Storage, site: str) -> bool:
        """Return whether files of a storage can reach a site."""
        reading = "read_lan" if site == source.site else "read_wan"
        return reading not in source.blacklisted and not is_blocked(self._links.get((source.site, site)))

    def ranked(self, holders: Iterable[str], destination: str) -> tuple[str, ...]:
        """Return the storages that hold a file and can deliver it to ``destination``, best first.

        Storages with a tripped circuit breaker come last (F4). Disk goes before tape, the destination's own
        site before others. Then measured throughput decides, then closeness; an unmeasured link comes after
        measured ones.
        """
        key = (frozenset(holders), destination)
        if key not in self._ranked:
            able = [name for name in key[0] if self._can_bring(name, destination)]
            self._ranked[key] = tuple(sorted(able, key=lambda name: self._rank(name, destination)))
        return self._ranked[key]

    def readable_from(self, holders: Iterable[str], destination: str) -> Storage | None:
        """Return the storage that a pilot at ``destination`` reads a file from if it is not there (E3).

        It is the best of ``ranked`` that allows remote reads by pilots; one with a tripped circuit
        breaker only if there is no other. Tape is too slow.
        """
        ranked = (self._storages[name] for name in self.ranked(holders, destination))
        return next((storage for storage in ranked if storage.remote_reads and not storage.tape), None)

    def promises(self, holders: Iterable[str], destination: str) -> Storage | None:
        """Return the same for jobs that may go elsewhere: None if its circuit breaker has tripped (F4)."""
        storage = self.readable_from(holders, destination)
        return None if storage is None or self.is_tripped(storage.name, destination) else storage

    def rate(self, source: str, destination: str) -> float | None:
        """Return the MB/s of the link between two sites; infinity within one, None if unmeasured."""
        if source == destination:
            return inf
        link = self._links.get((source, destination))
        return throughput_of(link) if link else None

    def storage(self, name: str) -> Storage:
        """Return the storage with this name. Raises KeyError."""
        return self._storages[name]

    def link(self, source: str, destination: str) -> Link | None:
        """Return the link between two sites, if one is declared."""
        return self._links.get((source, destination))

    def _can_bring(self, name: str, destination: str) -> bool:
        source, target = self._storages.get(name), self._storages.get(destination)
        if source is None or target is None or name == destination:
            return False
        return self._gives(source, target.site)

    def is_tripped(self, name: str, destination: str) -> bool:
        """Return whether a storage has an open or half-open breaker as a source for another (F4)."""
        return any(breaker.concerns(name, destination) for breaker in self.breakers if breaker.place[0])

    def _rank(self, name: str, destination: str) -> tuple[bool, bool, bool, float, float, str]:
        storage, target = self._storages[name], self._storages[destination]
        link = self._links.get((storage.site, target.site))
        throughput = throughput_of(link) if link else None
        away = storage.site != target.site
        # Compare by name last, so that the order is the same in every process.
        tripped = self.is_tripped(name, destination)
        return (tripped, storage.tape, away, -(throughput or 0.0), closeness_of(link), name)


def outputs_at(federation: Federation, site: str) -> tuple[Storage, ...]:
    """Return the storages of a nucleus that may take outputs, neither tape nor scratch, by name (B19)."""
    of_site = (storage for storage in federation.storages if storage.site == site)
    usable = (storage for storage in of_site if not storage.tape and not storage.scratch)
    return tuple(sorted(usable, key=lambda storage: storage.name))


def output_storages(spec: TaskSpec, federation: Federation) -> tuple[str, ...]:
    """Return the storages that may have outputs of a task: its nucleus's, or its queues'."""
    sites = {storage.name: storage.site for storage in federation.storages}
    queues = (
        queue for queue in federation.queues if not spec.queues or {queue.name, queue.parent} & {*spec.queues}
    )
    names = {queue.storage for queue in queues if spec.nucleus in ("", sites.get(queue.storage))}
    if spec.nucleus:
        names |= {storage.name for storage in outputs_at(federation, spec.nucleus)}
    return tuple(sorted(names))
