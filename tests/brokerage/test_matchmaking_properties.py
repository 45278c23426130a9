"""What holds for every world: the matchmaking agrees with a plain double loop over the ClassAd library."""

from collections import Counter
from dataclasses import replace
from typing import Any

import classad2
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.world import JobCount, World
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.contract import violations
from pilotage.policies.brokerage.engine.job_ads import job_ad
from pilotage.policies.brokerage.engine.job_groups import groups_of
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.site_ads import SiteAd, site_ads
from pilotage.policies.brokerage.matchmaking.cycle import Matchmaking
from pilotage.testing import NOW, federation, jobs, queue, task, world

COMPARISONS = st.sampled_from(
    [
        "TARGET.Speed >= 2",
        "TARGET.Speed > MY.RequestCpus",
        'TARGET.Arch =?= "arm"',
        'TARGET.Arch != "arm" || TARGET.Speed == 1',
        "TARGET.CurMatches < 3",
        "TARGET.JobsMatchedSinceLastAdvertisement + MY.RequestCpus <= 4",
        "member(MY.Owner, TARGET.Friends)",
        "TARGET.Speed",
        "TARGET.Missing =!= undefined",
        "random() < 0.7",
        "time() > 5",
    ]
)
OF_SITES = st.sampled_from(
    [
        "",
        "TARGET.RequestCpus <= Speed",
        "CurMatches % 3 != 2",
        "CurMatches + TARGET.RequestCpus < 6",
        'TARGET.Owner != "bob"',
        "TARGET.Nothing",
        "Speed > 0 && CurMatches < 5",
    ]
)
RANKS = st.sampled_from(
    ["", "TARGET.Speed", "0 - TARGET.CurMatches", 'TARGET.Arch == "arm"', '"text"', "random()"]
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Some tasks of some jobs, and sites of which some have throttles, old ads, and demands of their own."""
    count = draw(st.integers(1, 5))
    house = federation([queue(f"Q{n}", site=f"S{n % 4}") for n in range(count)])
    named = draw(st.permutations([site.name for site in house.sites]))
    sites = tuple(
        replace(
            site,
            max_jobs=draw(st.sampled_from([None, 0, 3, 6])),
            max_submitting_jobs=draw(st.sampled_from([None, None, 2, 4])),
            throttle=draw(st.sampled_from(["matches", "matches", "current"])),
            requirements=draw(OF_SITES),
            attributes={
                "Speed": draw(st.sampled_from([0, 1, 2, 2.5])),
                **({"Arch": draw(st.sampled_from(["arm", "x86"]))} if draw(st.booleans()) else {}),
                "Friends": draw(st.sampled_from([[], ["alice"]])),
            },
        )
        for site in house.sites
    )
    ads = [draw(advertisements(name)) for name in named[: draw(st.integers(0, len(named)))]]
    tasks = [
        task(
            number,
            priority=draw(st.sampled_from([100, 500, 900])),
            cores=draw(st.sampled_from([1, 1, 2])),
            site_requirements=" && ".join(draw(st.lists(COMPARISONS, max_size=3))),
            site_rank=draw(RANKS),
        )
        for number in range(1, draw(st.integers(1, 4)) + 1)
    ]
    work = [job for one in tasks for job in jobs(one, draw(st.integers(1, 6)), first=100 * one.id)]
    there = [
        JobCount(queue=name, share="default", state=state, jobs=draw(st.integers(1, 4)))
        for name in sorted(draw(st.sets(st.sampled_from([one.name for one in house.queues]))))
        for state in draw(st.sets(st.sampled_from([JobState.ASSIGNED, JobState.SENT, JobState.RUNNING])))
    ]
    return world(
        replace(house, sites=sites),
        tasks=tasks,
        jobs=work,
        advertisements=ads,
        job_counts=sorted(there, key=lambda row: (row.queue, row.state)),
        seed=draw(st.integers(0, 99)),
    )


@st.composite
def advertisements(draw: st.DrawFn, site: str) -> Advertisement:
    """An advertisement of a site."""
    pilots = draw(st.integers(0, 3))
    return Advertisement(
        site=site,
        source=draw(st.sampled_from(["native", "pushed"])),
        number=draw(st.integers(1, 9)),
        time=NOW - draw(st.sampled_from([0, 100, 899, 901])),
        pilots=pilots,
        submitting=draw(st.integers(0, pilots)),
        matched=draw(st.integers(0, 4)),
        attributes=draw(st.sampled_from([{}, {"CurrentJobs": 2}, {"MaxJobs": 5, "CurrentJobs": 0}])),
        requirements=draw(st.sampled_from(["", "CurMatches < 7", "broken("])),
    )


@given(worlds())
def test_m4_the_matchmaking_keeps_the_promises_of_a_brokerage(state: World) -> None:
    assert violations(Matchmaking(), state) == []


def _site(ad: SiteAd, matched: int) -> Any:
    asked = " && ".join(f"({demand.part.evaluated})" for demand in ad.demands) or "true"
    made = classad2.ClassAd(f"[Requirements = {asked}]")
    for name, value in (dict(ad.attributes) | ad.counts(matched)).items():
        made[name] = list(value) if isinstance(value, tuple) else value
    return made


@given(worlds())
def test_m4_m6_each_match_is_one_that_a_double_loop_over_the_library_finds(state: World) -> None:
    """Walk through the placements in their order: each site matched both ways, and none ranked higher did."""
    decision = Matchmaking().decide(state)
    ads = {ad.name: ad for ad in site_ads(state)}
    sites = {one.name: one.site for one in state.federation.queues}
    groups = {
        id_: group for group in groups_of(state, QueueColumns.of(state.federation)) for id_ in group.jobs
    }
    matched = Counter[str]()
    for choice in decision.choices:
        if not choice.jobs:
            continue
        group = groups[choice.jobs[0]]
        job = job_ad(group)
        asked = " && ".join(f"({part.evaluated})" for part in job.parts) or "true"
        made = classad2.ClassAd(f"[Requirements = {asked}]")
        for name, value in job.attributes.items():
            made[name] = value
        fits = {
            name for name, ad in ads.items() if not ad.stale and made.symmetricMatch(_site(ad, matched[name]))
        }
        able = {name for name, site in sites.items() if site in fits}
        small = {name for refusal in choice.refusals if "queue's" in refusal.name for name in refusal.queues}
        assert set(choice.candidates.queues) == able - small
        for name, count in choice.placed.items():
            matched[sites[name]] += count
        if len(choice.jobs) == 1 and choice.placed:
            rank = job.rank.evaluated if job.rank else "0"
            (chosen,) = choice.placed
            ranks = {name: _rank(rank, made, _site(ads[name], 0)) for name in fits}
            if "CurMatches" not in rank:
                assert ranks[sites[chosen]] == max(ranks[sites[name]] for name in able - small)


def _rank(text: str, job: Any, site: Any) -> float:
    value = classad2.ExprTree(text).eval(job, site)
    number = isinstance(value, int | float) and not isinstance(value, classad2.Value)
    return float(value) if number else 0.0


@given(worlds())
def test_m5_m6_no_site_is_given_more_than_its_throttle_takes(state: World) -> None:
    decision = Matchmaking().decide(state)
    sites = {one.name: one.site for one in state.federation.queues}
    matched = Counter[str]()
    for choice in decision.choices:
        for name, count in choice.placed.items():
            matched[sites[name]] += count
    for ad in site_ads(state):
        if not matched[ad.name]:
            continue
        told, counts = ad.attributes, ad.counts(matched[ad.name])
        # Counted by hand: jobs from their match to their end, those of others as the site told them.
        here = [row for row in state.job_counts if sites[row.queue] == ad.name]
        ours, others = matched[ad.name] + sum(row.jobs for row in here), ad.advertisement
        assert others is not None
        assert counts["CurMatches"] == ours + others.other_jobs
        assert ours + others.other_jobs <= told.get("MaxJobs", 10**9)
        submitting = matched[ad.name] + sum(row.jobs for row in here if row.state is not JobState.RUNNING)
        assert submitting + others.other_submitting_jobs <= told.get("MaxSubmittingJobs", 10**9)
