"""Matching sites and jobs: both Requirements and the job's Rank, over all sites (M4)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pilotage.model.documents.decision import Label
from pilotage.model.values.classad import Subexpression
from pilotage.policies.brokerage.engine import classad_library as library
from pilotage.policies.brokerage.engine.advertised_sites import AdvertisedSites, names_of
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.job_ads import JobAd
from pilotage.policies.brokerage.engine.site_ads import MOVING


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A part of either side's Requirements, with the sites (S,) where it is not true.

    ``ad`` is the job's ad, with at least the attributes that the part reads.
    """

    part: Subexpression
    label: Label
    of_site: bool
    refused: Mask
    ad: library.Ad


class Moving:
    """A part that changes with matches and reads the job. It is evaluated again each time (S,)."""

    def __init__(self, part: Subexpression, label: Label, of_site: bool, sites: Mask, ad: library.Ad) -> None:
        self.part = part
        self.label = label
        self.of_site = of_site
        self._sites = sites
        self._ad = ad
        self._seen = np.full(len(sites), -1, dtype=np.int64)
        self._refused: Mask = np.zeros(len(sites), dtype=bool)

    def now(self, sites: AdvertisedSites) -> Term:
        """Return the current value of this term."""
        for site in np.flatnonzero(self._sites & (self._seen != sites.versions)).tolist():
            ad = sites.library_ad(site)
            sites.count(self.part)
            pair = (ad, self._ad) if self.of_site else (self._ad, ad)
            self._refused[site] = not library.is_true(self.part.evaluated, *pair)
            self._seen[site] = sites.versions[site]
        return Term(self.part, self.label, self.of_site, self._refused.copy(), self._ad)


class MovingRank:
    """A Rank that depends on matches: it is evaluated again at sites with new matches (S,)."""

    def __init__(self, rank: Subexpression, ad: library.Ad, sites: AdvertisedSites) -> None:
        self._rank = rank
        self._ad = ad
        self._seen = np.full(len(sites), -1, dtype=np.int64)
        self._ranks = np.zeros(len(sites))

    def now(self, sites: AdvertisedSites) -> Column:
        """Return the current Rank of each site."""
        for site in np.flatnonzero(self._seen != sites.versions).tolist():
            sites.count(self._rank)
            self._ranks[site] = library.rank(self._rank.evaluated, self._ad, sites.library_ad(site))
            self._seen[site] = sites.versions[site]
        return self._ranks.copy()


class JobMatch:
    """The matches of one job ad with all sites: fixed parts, and parts that change as jobs are matched."""

    def __init__(
        self, job: JobAd, ad: library.Ad, terms: list[Term], moving: list[Moving], sites: AdvertisedSites
    ) -> None:
        self.terms = terms
        self.moving = moving
        refused = [term.refused for term in terms]
        self._willing: Mask = sites.fresh & ~np.any([np.zeros(len(sites), bool), *refused], axis=0)
        self._moving_rank = MovingRank(job.rank, ad, sites) if job.rank and _moves(job.rank) else None
        self._ranks = _ranks(job.rank, ad, sites)

    @property
    def moves(self) -> bool:
        """Return whether it reads the number of matches, so that each match may change it."""
        return bool(self.moving) or self._moving_rank is not None

    def now(self, sites: AdvertisedSites) -> list[Term]:
        """Return the current values of the changing parts."""
        return [moving.now(sites) for moving in self.moving]

    def candidates(self, sites: AdvertisedSites) -> Mask:
        """Return the sites where both Requirements are true now (S,)."""
        mask: Mask = self._willing & sites.open
        for term in self.now(sites):
            mask &= ~term.refused
        return mask

    def ranks(self, sites: AdvertisedSites) -> Column:
        """Return the job's Rank of each site (S,); 0 if it has none."""
        return self._ranks if self._moving_rank is None else self._moving_rank.now(sites)


def _ranks(rank: Subexpression | None, ad: library.Ad, sites: AdvertisedSites) -> Column:
    """Return the Rank of each site if it does not depend on matches, else 0 (S,)."""
    if rank is None or _moves(rank):
        return np.zeros(len(sites))
    names = names_of(rank.references, of_target=True)
    return sites.each(rank, names, lambda site: library.rank(rank.evaluated, ad, site), float)


def _moves(part: Subexpression | None) -> bool:
    return part is not None and any(reference.name in MOVING for reference in part.references)


class Matchmaker:
    """Makes the matches of job ads. Equal ads share their evaluations."""

    def __init__(self, sites: AdvertisedSites) -> None:
        self._sites = sites
        self._terms: dict[object, Term] = {}
        self._known: dict[object, JobMatch] = {}
        everything = [demand.part for demand, _ in sites.demands]
        self._asked = frozenset[str]().union(
            *(names_of(part.references, of_target=True) for part in everything)
        )

    def match(self, job: JobAd) -> JobMatch:
        """Match jobs of this ad. Ads that agree in all attributes that an expression reads share one
        match."""
        attributes = {name.lower(): value for name, value in job.attributes.items()}
        parts = (*job.parts, *([job.rank] if job.rank else []))
        read = self._asked.union(*(names_of(part.references, of_target=False) for part in parts))
        # Compare as text: 1 and true are equal dictionary keys, but not equal in an expression.
        key = (job.parts, job.rank, *((name, repr(attributes.get(name))) for name in sorted(read)))
        if key not in self._known:
            self._known[key] = self._new_match(job, attributes)
        return self._known[key]

    def _new_match(self, job: JobAd, attributes: dict[str, object]) -> JobMatch:
        ad = library.ad(job.attributes)
        terms: list[Term] = []
        moving: list[Moving] = []
        for part, label, of_site, sites in self._parts(job):
            if _moves(part):
                moving.append(Moving(part, label, of_site, sites, ad))
            else:
                terms.append(self._term(part, label, of_site, sites, ad, attributes))
        return JobMatch(job, ad, terms, moving, self._sites)

    def _parts(self, job: JobAd) -> Iterator[tuple[Subexpression, Label, bool, Mask]]:
        """Yield the parts of both sides to evaluate for a job, with the sites that they concern."""
        everywhere: Mask = np.ones(len(self._sites), dtype=bool)
        for part in job.parts:
            yield part, _of_job(part), False, everywhere
        for demand, sites in self._sites.demands:
            yield demand.part, demand.label, True, sites

    def _term(
        self,
        part: Subexpression,
        label: Label,
        of_site: bool,
        sites: Mask,
        ad: library.Ad,
        attributes: dict[str, object],
    ) -> Term:
        read = sorted(names_of(part.references, of_target=of_site))
        key = (part, label, of_site, *(repr(attributes.get(name)) for name in read))
        if key not in self._terms:
            names = names_of(part.references, of_target=not of_site)

            def refuses(site: library.Ad) -> bool:
                return not library.is_true(part.evaluated, *((site, ad) if of_site else (ad, site)))

            refused = sites & self._sites.each(part, names, refuses, bool)
            # The reasons evaluate the part again at each refused site.
            self._sites.count(part, int(refused.sum()))
            self._terms[key] = Term(part, label, of_site, refused, ad)
        return self._terms[key]


def _of_job(part: Subexpression) -> Label:
    return Label(
        rule="M4",
        name=f"the job's {part.text[:300]}",
        mend="user",
        lifted_by="change stations or site_requirements",
    )
