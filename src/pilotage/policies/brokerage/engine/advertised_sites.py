"""All sites of a cycle: their ads in the ClassAd library, values that several sites share, and free
places."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from pilotage.model.documents.decision import Value
from pilotage.model.rules.site_limits import ANY_NUMBER
from pilotage.model.rules.work_budget import EVALUATIONS, LONG_EXPRESSION, WorkBudget
from pilotage.model.values.classad import AttributeReference, Subexpression
from pilotage.policies.brokerage.engine import classad_library as library
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.site_ads import MOVING, SiteAd, SiteDemand

T = TypeVar("T")

NOBODY = library.ad({})
"""The other side's ad for expressions that do not read it."""


def names_of(references: Iterable[AttributeReference], of_target: bool) -> frozenset[str]:
    """Return the attributes of one side that expressions read, in lower case."""
    return frozenset(reference.name for reference in references if reference.of_target is of_target)


class Throttle:
    """A demand of some sites that changes with matches, and does not read the job's ad (M6).

    ``closed`` (S,) marks sites where it is not true. A closed site gets no further matches, so it stays
    closed for the cycle.
    """

    def __init__(self, demand: SiteDemand, sites: Mask) -> None:
        self.demand = demand
        self.sites = sites
        self.closed: Mask = np.zeros(len(sites), dtype=bool)


class AdvertisedSites:
    """The ads of all sites (S), and this cycle's matches.

    An expression is evaluated once for all sites with equal values of the attributes that it reads.
    """

    def __init__(self, ads: Sequence[SiteAd]) -> None:
        self.ads = ads
        self._library = [library.ad(dict(ad.attributes) | ad.counts(0)) for ad in ads]
        self._attributes = [{name.lower(): value for name, value in ad.attributes.items()} for ad in ads]
        self._free = np.array([0 if ad.moves else ad.room for ad in ads], dtype=np.int64)
        self._held = np.zeros(len(ads), dtype=np.int64)
        self._kinds: dict[frozenset[str], tuple[Codes, list[int]]] = {}
        self._matches: list[list[int]] = [[] for _ in ads]
        self._moment = 0
        self._work = WorkBudget()
        self.task = 0
        """The current task: evaluations count against its budget."""
        self.versions = np.zeros(len(ads), dtype=np.int64)
        self.fresh: Mask = np.array([not ad.stale for ad in ads], dtype=bool)
        self.demands, self.throttles = self._sorted()
        for throttle in self.throttles:
            for site in np.flatnonzero(throttle.sites):
                throttle.closed[site] = not self.holds(throttle.demand, int(site))
        self.open: Mask = ~np.any([np.zeros(len(ads), bool), *(t.closed for t in self.throttles)], axis=0)

    def __len__(self) -> int:
        return len(self.ads)

    def _sorted(self) -> tuple[list[tuple[SiteDemand, Mask]], list[Throttle]]:
        """Return the distinct demands with their sites: demands that do not change with matches, and
        throttles."""
        sites_by_demand: dict[SiteDemand, Mask] = {}
        for place, ad in enumerate(self.ads):
            for demand in ad.demands:
                sites_by_demand.setdefault(demand, np.zeros(len(self.ads), dtype=bool))[place] = True
        throttles = [
            Throttle(demand, sites) for demand, sites in sites_by_demand.items() if _is_throttle(demand.part)
        ]
        lasting = [
            (demand, sites) for demand, sites in sites_by_demand.items() if not _is_throttle(demand.part)
        ]
        return lasting, throttles

    def holds(self, demand: SiteDemand, site: int, job: library.Ad = NOBODY) -> bool:
        """Return whether a demand of a site is true in its current state."""
        return library.is_true(demand.part.evaluated, self._library[site], job)

    def library_ad(self, site: int) -> library.Ad:
        """Return the current ad of a site."""
        return self._library[site]

    def count(self, part: Subexpression, sites: int = 1) -> None:
        """Count evaluations of an expression. Raises ``OverBudget``."""
        self._work.spend(self.task, EVALUATIONS, sites * (1 + len(part.evaluated) // LONG_EXPRESSION))

    def each(
        self,
        part: Subexpression,
        names: frozenset[str],
        value: Callable[[library.Ad], T],
        kind: type = object,
    ) -> Column:
        """Return the value of an expression for each site (S,), computed once for sites that agree in the
        named attributes."""
        codes, first = self._kind(names)
        self.count(part, len(first))
        values: Column = np.empty(len(first), dtype=kind)
        for place, site in enumerate(first):
            values[place] = value(self._library[site])
        column: Column = values[codes]
        return column

    def _kind(self, names: frozenset[str]) -> tuple[Codes, list[int]]:
        if names not in self._kinds:
            first: dict[object, tuple[int, int]] = {}
            ordered = sorted(names)
            codes = [
                first.setdefault(
                    tuple(_hashable(attributes.get(name)) for name in ordered), (len(first), site)
                )[0]
                for site, attributes in enumerate(self._attributes)
            ]
            self._kinds[names] = np.array(codes, dtype=np.intp), [site for _, site in first.values()]
        return self._kinds[names]

    def hold(self, sites: Mask, jobs: int) -> None:
        """Reserve places at sites for waiting jobs that could take them; jobs of lower priority cannot
        (M7)."""
        self._held[sites] += jobs

    @property
    def reserved_sites(self) -> Mask:
        """Return the sites with all remaining places reserved for waiting jobs of higher priority (S,)."""
        reserved: Mask = (self._held > 0) & (self._free <= self._held)
        return reserved

    def match(self, site: int) -> None:
        """Count one more job matched to a site (M5)."""
        self._free[site] -= 1
        self._matches[site].append(self._moment)
        self._moment += 1
        self.versions[site] += 1
        for name, count in self.ads[site].counts(self.matched(site)).items():
            self._library[site][name] = count
        for throttle in self.throttles:
            if throttle.sites[site] and not self.holds(throttle.demand, site):
                # Use a new array: reasons keep the one that decided.
                throttle.closed = throttle.closed.copy()
                throttle.closed[site] = True
                self.open[site] = False

    def matched(self, site: int, moment: int | None = None) -> int:
        """Return the number of jobs that this cycle matched to a site before a moment."""
        moments = self._matches[site]
        return len(moments) if moment is None else bisect_left(moments, moment)

    def limit(self, site: int, by_job: bool) -> int:
        """Return the most matches since its advertisement that a site may have, including this cycle's.

        If requirements read matches besides the claimed limits, this is the number at this decision. If
        others match jobs before the commit, it refuses the rest.
        """
        ad = self.ads[site]
        if not (ad.moves or by_job):
            return ANY_NUMBER
        return (ad.advertisement.matched if ad.advertisement else 0) + self.matched(site)

    def plain_value(self, text: str, job: library.Ad, of_site: bool, site: int) -> Value:
        """Return the value of an expression of a job, or of a site, at a site in its current state."""
        ad = self._library[site]
        return library.plain_value(text, *((ad, job) if of_site else (job, ad)))

    def described(self, part: Subexpression, of_site: bool, site: int) -> str:
        """Return the attributes of a site that a part reads, with their values."""
        names = names_of(part.references, of_target=not of_site)
        # Attribute names ignore case. Show them as the ad writes them.
        spellings = {name.lower(): name for name in self._library[site]}
        values = defaultdict[str, object](lambda: "undefined")
        values |= {
            name: library.plain_value(spellings[name], self._library[site], NOBODY)
            for name in names & spellings.keys()
        }
        return ", ".join(f"{spellings.get(name, name)} = {values[name]}" for name in sorted(names))[:400]


def _is_throttle(part: Subexpression) -> bool:
    return not names_of(part.references, of_target=True) and any(
        reference.name in MOVING for reference in part.references
    )


def _hashable(value: object) -> object:
    """Values of different types differ: 1, 1.0 and true are not the same to every expression."""
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return type(value), value
