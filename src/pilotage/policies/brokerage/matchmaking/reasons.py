"""The reasons of a match: the parts of both ads that were not true, their sites and values (M4, M6)."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pilotage.model.documents.decision import Label, Value
from pilotage.model.documents.reasons import Given, PackedCandidates, PackedChoice, PackedRefusal
from pilotage.model.values.classad import Subexpression
from pilotage.policies.brokerage.engine import classad_library as library
from pilotage.policies.brokerage.engine.advertised_sites import NOBODY, AdvertisedSites
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.site_ads import SiteDemand
from pilotage.policies.brokerage.engine.site_matches import Term
from pilotage.policies.brokerage.engine.verdicts import Examination, FactsDraft, bits_of

NO_AD = Label(
    rule="M2", name="advertisement", mend="operator", lifted_by="the site advertises what it has and runs"
)

KEPT = Label(
    rule="M7",
    name="places left",
    mend="wait",
    lifted_by="the next match-making cycle, in which the highest priority goes first",
)


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """A throttle, and the sites that it had closed at a group's turn."""

    part: Subexpression
    label: Label
    sites: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """The turn of a group: the state of all sites at that time, and what happened to its jobs.

    ``reserved`` marks sites that keep places for waiting jobs of higher priority (M7).
    """

    group: Group
    row: int
    terms: Sequence[Term]
    closed: Sequence[Closed]
    reserved: Mask
    candidates: Codes
    ranks: Sequence[float]
    moved: tuple[int, ...]
    placed: Mapping[str, int]


class Reasons:
    """Refusals that the choices of a cycle share. Each is made once."""

    def __init__(self, sites: AdvertisedSites, at: Codes, queues: QueueColumns, facts: FactsDraft) -> None:
        self._sites = sites
        self._at = at
        self.queues = queues
        self._facts = facts
        self._made: dict[object, PackedRefusal | None] = {}
        self._kept: list[object] = []
        self._columns: dict[SiteDemand, tuple[Column, Column]] = {}

    def refusals(self, turn: Turn) -> tuple[PackedRefusal, ...]:
        """Return the refusals of sites: an old advertisement, a false term, a throttle, reserved places."""
        parts = [self._stale()]
        for term in turn.terms:
            self._kept.append(term)  # so that no other object gets its id
            parts.append(self._refusal(id(term), term.part, term.label, term.refused, term.ad, term.of_site))
        parts += [self._closed(throttle) for throttle in turn.closed]
        parts.append(self._packed(KEPT, turn.reserved, "no waiting job of higher priority", "one that waits"))
        return tuple(refusal for refusal in parts if refusal is not None)

    def _stale(self) -> PackedRefusal | None:
        if "stale" not in self._made:
            words = np.array([ad.stale for ad in self._sites.ads], dtype=object)[self._at]
            self._made["stale"] = self._packed(NO_AD, ~self._sites.fresh, "a fresh one", words)
        return self._made["stale"]

    def _closed(self, throttle: Closed) -> PackedRefusal | None:
        """Use the values at the end of the cycle: they stay constant, because a site with a closed throttle
        gets no matches."""
        key = id(throttle.sites)
        if key not in self._made:
            self._kept.append(throttle.sites)
            self._made[key] = self._packed(throttle.label, throttle.sites, *self._values_of(throttle))
        return self._made[key]

    def _values_of(self, throttle: Closed) -> tuple[Column, Column]:
        """Return need and have of a throttle at all queues at the end of the cycle."""
        demand = SiteDemand(throttle.part, throttle.label)
        if demand not in self._columns:
            (last,) = [item.closed for item in self._sites.throttles if item.demand == demand]
            self._columns[demand] = self._compared_values(throttle.part, last, NOBODY, True)
        return self._columns[demand]

    def _compared_values(
        self, part: Subexpression, refused: Mask, ad: library.Ad, of_site: bool
    ) -> tuple[Column, Column]:
        need = np.full(len(refused), part.text, dtype=object)
        have = np.full(len(refused), "", dtype=object)
        for site in np.flatnonzero(refused).tolist():
            need[site], have[site] = self._values(part, ad, of_site, site)
        return need[self._at], have[self._at]

    def _refusal(
        self, key: object, part: Subexpression, label: Label, refused: Mask, ad: library.Ad, of_site: bool
    ) -> PackedRefusal | None:
        if key not in self._made:
            self._made[key] = self._packed(label, refused, *self._compared_values(part, refused, ad, of_site))
        return self._made[key]

    def _values(self, part: Subexpression, ad: library.Ad, of_site: bool, site: int) -> tuple[Value, Value]:
        """Return need and have of a part at a site: the numbers of a comparison, else its text and the
        attributes that it reads.

        Equal numbers do not explain a strict comparison, so return the text then.
        """
        if part.comparison is not None:
            sides = part.comparison.first, part.comparison.second
            first, second = (self._sites.plain_value(text, ad, of_site, site) for text in sides)
            if _is_number(first) and _is_number(second) and first != second:
                # One side is the site's value, the other is the job's need.
                return (first, second) if part.comparison.reads_other is of_site else (second, first)
        return part.text, self._sites.described(part, of_site, site)

    def _packed(self, label: Label, refused: Mask, need: object, have: object) -> PackedRefusal | None:
        mask = refused[self._at]
        if not mask.any():
            return None
        return PackedRefusal(
            label=self._facts.label(label),
            queues=bits_of(mask).tobytes(),
            need=self._packed_value(need),
            have=self._packed_value(have),
        )

    def _packed_value(self, values: object) -> Given:
        if isinstance(values, np.ndarray):
            self._kept.append(values)
            return self._facts.column(values)
        return str(values)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Reasoned:
    """The choice of one group, made when it is read or stored."""

    def __init__(self, turn: Turn, examination: Examination, reasons: Reasons) -> None:
        self._turn = turn
        self._examination = examination
        self._reasons = reasons

    def packed(self) -> PackedChoice:
        """Return the reasons in columns."""
        return self._packed

    @cached_property
    def _packed(self) -> PackedChoice:
        turn = self._turn
        ranks = array("d", turn.ranks)
        return PackedChoice(
            task=turn.group.task.id,
            job_kind=turn.group.kind,
            jobs=turn.moved,
            placed=turn.placed,
            considered=len(self._reasons.queues),
            left=0,
            candidates=PackedCandidates(
                queues=array("I", turn.candidates.astype(np.uint32).tobytes()),
                weights=ranks,
                factors={"M4": ranks},
            ),
            refusals=self._examination.refusals(turn.row) + self._reasons.refusals(turn),
            waived=(),
        )
