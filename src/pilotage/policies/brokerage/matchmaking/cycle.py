"""The matchmaking brokerage: one match-making cycle over the groups of similar jobs (M1 to M8)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.reasons import Facts
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import HeldPlaces
from pilotage.model.records.counters import Claim
from pilotage.model.records.spec import PLACE_FIELDS, SITE_FIELDS
from pilotage.model.rules.site_limits import ANY_NUMBER, match_claim, next_cycle
from pilotage.policies.brokerage.engine.advertised_sites import AdvertisedSites
from pilotage.policies.brokerage.engine.arrays import Codes, Mask
from pilotage.policies.brokerage.engine.decision_draft import DecisionDraft
from pilotage.policies.brokerage.engine.guards import guarded
from pilotage.policies.brokerage.engine.job_ads import job_ad
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.plugin_options import OptionError
from pilotage.policies.brokerage.engine.queue_columns import DeclaredColumns, QueueColumns
from pilotage.policies.brokerage.engine.site_ads import site_ads
from pilotage.policies.brokerage.engine.site_matches import JobMatch, Matchmaker
from pilotage.policies.brokerage.engine.spec_table import SpecTable
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import Examination, FactsDraft, examine, mask_of
from pilotage.policies.brokerage.matchmaking.fitness import CHECKS
from pilotage.policies.brokerage.matchmaking.reasons import Closed, Reasoned, Reasons, Turn
from pilotage.policies.brokerage.matchmaking.turns import GroupTurn, turns_of

BLOCK = 1 << 20
"""Pairs of group and queue examined together. This bounds the memory of a cycle."""


class Matchmaking:
    """Takes jobs by priority, then age. Each goes to one of the matching sites with the highest Rank, drawn
    at random.

    Both Requirements must be true. A second draw chooses one of the site's queues that can run the job. Each
    match counts at its site. A job without a match is PENDING until the next cycle. Between cycles, no job
    takes a place that a waiting job of higher priority could take (M7). It takes no options.
    """

    reads = PLACE_FIELDS | SITE_FIELDS
    """The task fields for brokerages that it reads (M3)."""

    waits_for_cycle = True
    """A job without a match waits for the next cycle (M7)."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        for name in options or {}:
            raise OptionError((name,), "there is no such option: the matchmaking has none")
        self._columns = DeclaredColumns()
        self._specs = SpecTable()

    @guarded
    def decide(self, world: World) -> Decision:
        """Return moves of the world's DEFINED jobs, with one or two choices per group of similar jobs."""
        queues = self._columns.of(world.federation).during(world)
        cycle = _MatchmakingCycle(world, queues, self._specs)
        turns = turns_of(world, queues, self._specs, cycle.next)
        rows = max(1, BLOCK // len(queues))
        for start in range(0, len(turns), rows):
            cycle.decide(turns[start : start + rows])
        return cycle.decision()

    def held_places(self, world: World) -> tuple[HeldPlaces, ...]:
        """Return the places at sites with limits that the jobs ahead could take in the next cycle (M8)."""
        waiting = replace(world, jobs=())
        queues = self._columns.of(world.federation).during(waiting)
        cycle = _MatchmakingCycle(waiting, queues, self._specs)
        turns = turns_of(waiting, queues, self._specs, cycle.next)
        rows = max(1, BLOCK // len(queues))
        places = Counter[tuple[str, int]]()
        for start in range(0, len(turns), rows):
            places.update(cycle.places_for(turns[start : start + rows]))
        return tuple(
            HeldPlaces(site=site, priority=priority, jobs=min(jobs, ANY_NUMBER))
            for (site, priority), jobs in sorted(places.items())
        )


class _MatchmakingCycle:
    """One cycle: the moves and choices so far, and the matches at each site."""

    def __init__(self, world: World, queues: QueueColumns, specs: SpecTable) -> None:
        self._specs = specs
        self.next = next_cycle(world.time, world.federation.brokerage.match_period)
        self._queues = queues
        self._sites = AdvertisedSites(site_ads(world))
        places = {ad.name: place for place, ad in enumerate(self._sites.ads)}
        self._at: Codes = np.array([places[name] for name in queues.site_names], dtype=np.intp)
        self._queues_of: list[list[int]] = [[] for _ in self._sites.ads]
        for queue, site in enumerate(self._at.tolist()):
            self._queues_of[site].append(queue)
        self._matchmaker = Matchmaker(self._sites)
        self._random = np.random.default_rng([world.seed, 1])
        self._facts = FactsDraft(queues)
        self._reasons = Reasons(self._sites, self._at, queues, self._facts)
        self._draft = DecisionDraft(world, queues)
        self._reasoned: list[Reasoned] = []

    def decision(self) -> Decision:
        """Return the moves and choices of the groups so far."""
        return self._draft.decision(self._shared_facts)

    def _shared_facts(self) -> Facts:
        """Return the facts that choices share.

        They are complete only after all choices are packed.
        """
        for reasoned in self._reasoned:
            reasoned.packed()
        return self._facts.facts()

    def decide(self, turns: Sequence[GroupTurn]) -> None:
        """Match groups in order, because each changes what the sites accept."""
        examination, able, missing = self._examined(turns)
        for row, turn in enumerate(turns):
            if turn.is_here:
                self._decide(turn.group, row, able[row], missing[row], examination)
            if turn.waiting:
                self._sites.hold(*self._could_take(turn, able[row]))

    def _examined(self, turns: Sequence[GroupTurn]) -> tuple[Examination, Mask, Mask]:
        """Return the examination of the groups, and masks of queues that can run them and of queues without
        all input (T, Q)."""
        groups = [turn.group for turn in turns]
        tasks = TaskColumns.of(groups, self._queues, self._specs)
        examination = examine(CHECKS, tasks, self._queues, self._facts)
        able = ~mask_of(examination.refused(np.arange(len(groups))), len(self._queues))
        return examination, able, tasks.missing_files(self._queues) > 0

    def places_for(self, turns: Sequence[GroupTurn]) -> Mapping[tuple[str, int], int]:
        """Return the places that waiting jobs could take, by site with limits, and by priority."""
        places = Counter[tuple[str, int]]()
        for turn, able in zip(turns, self._examined(turns)[1], strict=True):
            sites, jobs = self._could_take(turn, able)
            for site in np.flatnonzero(sites).tolist():
                if (ad := self._sites.ads[site]).room < ANY_NUMBER:
                    places[ad.name, turn.group.priority] += jobs
        return places

    def _could_take(self, turn: GroupTurn, able: Mask) -> tuple[Mask, int]:
        """Return the sites where waiting jobs could go, and the places that they could take at each.

        If the jobs' own Requirements or Rank depend on matches, they could take any remaining place.
        """
        self._sites.task = turn.group.task.id
        match = self._matchmaker.match(job_ad(turn.group))
        sites = match.candidates(self._sites) & self._by_site(able)
        return sites, ANY_NUMBER if match.moves else turn.waiting

    def _by_site(self, able: Mask) -> Mask:
        """Return the sites with a queue that can run the jobs (S,)."""
        able_sites: Mask = np.zeros(len(self._sites), dtype=bool)
        able_sites[self._at[able]] = True
        return able_sites

    def _decide(self, group: Group, row: int, able: Mask, missing: Mask, examination: Examination) -> None:
        self._sites.task = group.task.id
        match = self._matchmaker.match(job_ad(group))
        turn = self._turn(group, row, match, able)
        placed = self._place(group, match, able) if len(turn.candidates) else []
        moved = self._send(group, placed, missing, match)
        if moved:
            self._explain(replace(turn, moved=moved, placed=self._counted(placed)), examination)
            turn = self._turn(group, row, match, able)
        rest = group._replace(jobs=group.jobs[len(moved) :])
        if rest.jobs:
            waiting = self._draft.suspend(rest, "no site matches", self.next)
            self._explain(replace(turn, moved=waiting), examination)

    def _explain(self, turn: Turn, examination: Examination) -> None:
        self._reasoned.append(Reasoned(turn, examination, self._reasons))
        self._draft.explain(self._reasoned[-1])

    def _turn(self, group: Group, row: int, match: JobMatch, able: Mask) -> Turn:
        """Return the current state of all sites for a group."""
        ranks = match.ranks(self._sites)[self._at]
        reserved = self._sites.reserved_sites
        chosen = np.flatnonzero(able & (match.candidates(self._sites) & ~reserved)[self._at])
        # Sort by Rank, then by the order of queues, so that people see a stable order. Only the draw is
        # random.
        best = chosen[np.lexsort((chosen, -ranks[chosen]))]
        return Turn(
            group=group,
            row=row,
            terms=[*match.terms, *match.now(self._sites)],
            closed=[
                Closed(throttle.demand.part, throttle.demand.label, throttle.closed)
                for throttle in self._sites.throttles
            ],
            reserved=reserved,
            candidates=best,
            ranks=ranks[best].tolist(),
            moved=(),
            placed={},
        )

    def _place(self, group: Group, match: JobMatch, able: Mask) -> list[int]:
        """Draw a site and one of its queues for each job, until no site matches. Return the queues."""
        by_site = self._by_site(able)
        placed = []
        for _ in group.jobs:
            site = self._drawn(match, by_site)
            if site is None:
                break
            able_queues = [queue for queue in self._queues_of[site] if able[queue]]
            queue = (
                able_queues[0]
                if len(able_queues) == 1
                else able_queues[int(self._random.integers(len(able_queues)))]
            )
            self._sites.match(site)
            placed.append(queue)
        return placed

    def _drawn(self, match: JobMatch, by_site: Mask) -> int | None:
        """Draw a site among the matching ones with the highest Rank, by the world's seed (M4)."""
        willing = np.flatnonzero(match.candidates(self._sites) & by_site & ~self._sites.reserved_sites)
        if not len(willing):
            return None
        ranks = match.ranks(self._sites)[willing]
        best = willing[ranks == ranks.max()]
        return int(best[self._random.integers(len(best))])

    def _send(self, group: Group, placed: Sequence[int], missing: Mask, match: JobMatch) -> tuple[int, ...]:
        """Move the oldest jobs to the first queue, and so on. Return the moved jobs in this order.

        They claim the site's advertisement, and the number of matches if its requirements read it, because
        the decision depends on these. The site's limits are claimed for every brokerage (M8).
        """
        moved = 0
        for queue, jobs in Counter(placed).items():
            ids = group.jobs[moved : moved + jobs]
            claim = self._claim(int(self._at[queue]), match.moves)
            self._draft.place(ids, queue, local=not missing[queue], cause="matched", claims=(claim,))
            moved += jobs
        return group.jobs[:moved]

    def _claim(self, site: int, by_job: bool) -> Claim:
        ad = self._sites.ads[site]
        number = ad.advertisement.number if ad.advertisement else 0
        limit = self._sites.limit(site, by_job)
        return match_claim(ad.name, number, limit)

    def _counted(self, placed: Sequence[int]) -> dict[str, int]:
        return {str(self._queues.names[queue]): jobs for queue, jobs in Counter(placed).items()}
