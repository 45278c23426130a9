"""The matcher: which jobs a pilot takes (P7, P13)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import JobCount, World
from pilotage.model.records.federation import Federation, GlobalShare
from pilotage.model.records.matching import ClaimRequest, Head, MatchRequest
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import Job, Pilot, Requirements
from pilotage.model.rules.job_order import levels_of
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots import matcher
from pilotage.policies.pilots.share_turns import ShareTurns
from pilotage.policies.pilots.task_queue_columns import Level, columns, draw
from pilotage.testing import ALICE, BOB, NOW, federation, job, pilot, queue, request, requirements, world
from pilotage.testing.moves import given_to


def asked(
    *jobs: Job,
    asking: MatchRequest | None = None,
    by: Pilot | None = None,
    where: Federation | None = None,
    counts: tuple[JobCount, ...] = (),
) -> World:
    """A world in which one pilot asks."""
    requests, pilots = (asking or request(),), (by or pilot(),)
    return world(where or federation(), jobs=jobs, requests=requests, pilots=pilots, job_counts=counts)


def drawn(seen: World, seeds: Iterable[int]) -> Iterator[list[int]]:
    """Ids of the jobs that the pilot of a world takes, by each seed in turn."""
    for seed in seeds:
        yield given_to(seen.jobs, matcher.match(replace(seen, seed=seed))).get(1, [])


def taken(*jobs: Job, seed: int = 7, **of_world: Any) -> list[int]:
    """Ids of the jobs that one pilot takes."""
    return next(drawn(asked(*jobs, **of_world), [seed]))


def test_p13_task_queues_are_drawn_exactly_in_proportion_to_priority() -> None:
    urgent = job(1, priority=750)
    calm = job(2, priority=250, requirements=requirements(BOB))
    first = Counter(ids[0] for ids in drawn(asked(urgent, calm), range(4000)))
    assert first[1] / first[2] == pytest.approx(3, rel=0.12)


def test_p13_the_proportion_holds_for_every_job_of_a_long_request() -> None:
    urgent = [job(id_, priority=600) for id_ in range(1, 301)]
    calm = [job(id_, priority=200, requirements=requirements(BOB)) for id_ in range(301, 601)]
    counts: Counter[bool] = Counter()
    seen = asked(*urgent, *calm, asking=request(cores=100, max_jobs=100))
    for ids in drawn(seen, range(40)):
        assert len(ids) == 100
        counts.update(id_ <= 300 for id_ in ids)
    assert counts[True] / counts[False] == pytest.approx(3, rel=0.1)


@pytest.mark.slow
def test_p13_three_task_queues_one_of_which_runs_dry_leave_the_others_in_proportion() -> None:
    dry = [job(1, priority=100_000, requirements=requirements(memory=10))]
    urgent = [job(id_, priority=900) for id_ in range(11, 100)]
    calm = [job(id_, priority=300, requirements=requirements(BOB)) for id_ in range(101, 200)]
    second: Counter[bool] = Counter()
    seen = asked(*dry, *urgent, *calm, asking=request(cores=2, max_jobs=2))
    for first, other in drawn(seen, range(3000)):
        if first == 1:
            second[other < 100] += 1
    assert second[True] / second[False] == pytest.approx(3, rel=0.15)


def test_p13_a_share_belongs_to_its_owner_however_many_task_queues_the_owner_makes() -> None:
    many = [job(id_, priority=500, requirements=requirements(memory=id_)) for id_ in range(1, 11)]
    few = [job(id_, priority=500, requirements=requirements(BOB)) for id_ in range(11, 15)]
    first: Counter[bool] = Counter()
    for ids in drawn(asked(*many, *few, asking=request(cores=4, max_jobs=4)), range(2000)):
        first.update(id_ <= 10 for id_ in ids)
    assert first[True] / first[False] == pytest.approx(1, rel=0.08)


def test_p13_within_a_task_queue_jobs_go_by_priority_then_age() -> None:
    jobs = (
        job(1, priority=100),
        job(2, priority=900),
        job(3, priority=900, created=NOW - 9000),
        job(4, priority=500),
    )
    assert taken(*jobs, asking=request(cores=4, max_jobs=4)) == [3, 2, 4, 1]


SHARES = (
    GlobalShare(name="physics", target=3),
    GlobalShare(name="biology", target=1),
    GlobalShare(name="rest", target=0),
)


def test_p13_the_share_furthest_below_its_target_goes_first_whatever_the_priorities() -> None:
    jobs = [
        *(job(id_, share="physics", requirements=requirements(share="physics")) for id_ in range(1, 11)),
        *(
            job(id_, share="biology", requirements=requirements(BOB, share="biology"), priority=900)
            for id_ in range(11, 21)
        ),
        job(21, share="rest", requirements=requirements(BOB, share="rest"), priority=900),
    ]
    where = federation(shares=SHARES)

    def first(most: int, **of_world: Any) -> list[int]:
        return taken(*jobs, where=where, asking=request(cores=most, max_jobs=most), **of_world)

    assert [id_ > 10 for id_ in first(8)].count(True) == 2, "three to one"
    assert sorted(first(20)) == list(range(1, 21)), "what has no target comes last"
    assert 21 in first(21)
    running = JobCount(queue="q2", share="physics", state=JobState.RUNNING, jobs=9)
    assert all(10 < id_ < 21 for id_ in first(3, counts=(running,)))


def test_p13_a_share_that_is_not_declared_any_more_has_the_target_one() -> None:
    physics = [job(id_, requirements=requirements(share="physics")) for id_ in range(1, 9)]
    gone = [job(id_, requirements=requirements(share="gone")) for id_ in range(11, 19)]
    ids = taken(*physics, *gone, where=federation(shares=SHARES), asking=request(cores=8, max_jobs=8))
    assert [id_ > 10 for id_ in ids].count(True) == 2


def test_p13_a_pilot_takes_so_many_from_a_head_and_the_commit_finds_which() -> None:
    jobs = (job(5, attempt=3, priority=900), job(6, priority=900), job(7, priority=900), job(8))
    asking = request(cores=4, max_jobs=4)
    (asked_for,) = matcher.match(world(jobs=jobs, requests=(asking,), pilots=(pilot(),))).requests
    heads = [
        Head(requirements=jobs[0].requirements, priority=900, jobs=3),
        Head(requirements=jobs[3].requirements, priority=jobs[3].priority, jobs=1),
    ]
    assert isinstance(asked_for, ClaimRequest)
    assert (asked_for.pilot, asked_for.queue, list(asked_for.heads)) == (1, "Q", heads)


def test_a_world_of_levels_alone_gives_the_same_decision_as_one_of_jobs() -> None:
    jobs = [
        job(id_, priority=100 * (id_ % 3), requirements=requirements(memory=id_ % 4)) for id_ in range(1, 30)
    ]
    of_jobs = asked(*jobs, asking=request(cores=9, max_jobs=9))
    of_levels = replace(of_jobs, jobs=(), levels=levels_of(jobs, ()))
    assert matcher.match(of_levels) == matcher.match(of_jobs)


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ({"cores": 2}, {"cores": 1}),
        ({"memory": 2000}, {"memory": 1999}),
        ({"cpu_time": 864_000}, {"walltime": 86_399}),
        ({"private": True}, {}),
        ({"gpus": 2}, {"gpus": 1}),
        ({"container": True}, {"containers": False}),
    ],
)
def test_what_does_not_fit_is_not_taken(asked: dict[str, Any], offered: dict[str, Any]) -> None:
    used = pilot(matched=1)
    wanted = job(1, requirements=requirements(**asked))
    assert taken(wanted, asking=request(**offered), by=used) == []
    assert taken(wanted, job(2), asking=request(**offered), by=used) == [2]


def test_jobs_elsewhere_or_not_activated_are_not_taken() -> None:
    assert taken(job(1, queue="q2"), job(2, JobState.ASSIGNED), job(3, JobState.SENT, pilot=9)) == []


@pytest.mark.parametrize("owner", [BOB, replace(ALICE, group="admins"), replace(ALICE, vo="biology")])
def test_p7_a_private_pilot_takes_only_its_owners_and_groups_work(owner: Identity) -> None:
    jobs = (job(1, requirements=requirements(ALICE)), job(2, requirements=requirements(ALICE, private=True)))
    many = request(kind="private", owner=ALICE, cores=2, max_jobs=2)
    assert sorted(taken(*jobs, asking=many)) == [1, 2]
    assert taken(*jobs, asking=replace(many, owner=owner)) == []


def test_p7_a_generic_pilot_takes_anybodys_work() -> None:
    jobs = (job(1, requirements=requirements(ALICE)), job(2, requirements=requirements(BOB)))
    assert sorted(taken(*jobs, asking=request(cores=2, max_jobs=2))) == [1, 2]


def test_cores_and_memory_are_used_up_and_no_memory_given_is_no_limit() -> None:
    jobs = [job(id_) for id_ in range(1, 10)]
    assert len(taken(*jobs, asking=request(cores=9, memory=3500, max_jobs=9))) == 3
    assert len(taken(*jobs, asking=request(cores=4, memory=0, max_jobs=9))) == 4
    assert len(taken(*jobs, asking=request(cores=9, memory=9000, max_jobs=2))) == 2
    assert len(taken(*jobs, asking=request(cores=9, memory=2000, max_jobs=9))) == 2


def test_what_a_big_job_leaves_goes_to_a_small_one() -> None:
    big = [job(id_, priority=100_000, requirements=requirements(cores=3)) for id_ in (1, 2)]
    assert sorted(taken(*big, job(3, priority=1), asking=request(cores=4, max_jobs=4))) == [1, 3]


def test_a_new_pilot_takes_the_longest_job_though_starting_up_took_a_little_of_its_time() -> None:
    long = job(1, requirements=requirements(cpu_time=1_728_000))
    offered = request(walltime=172_795)
    assert taken(long, asking=offered, by=pilot(matched=0)) == [1]
    assert taken(long, asking=offered, by=pilot(matched=1)) == []


def test_p13_a_new_pilot_whose_slot_is_shorter_than_ordered_gets_nothing_that_cannot_end_in_time() -> None:
    jobs = (job(1, requirements=requirements(cpu_time=1_728_000)), job(2, requirements=requirements()))
    both = request(walltime=4000, cores=2, max_jobs=2)
    assert taken(*jobs, asking=both, by=pilot(matched=0)) == [2]


def test_gpus_are_used_up_and_containers_need_a_pilot_that_runs_them() -> None:
    jobs = [job(id_, requirements=requirements(gpus=1)) for id_ in range(1, 6)]
    many = request(cores=9, max_jobs=9, gpus=3, containers=True)
    assert len(taken(*jobs, asking=many)) == 3
    boxed = job(6, requirements=requirements(container=True))
    assert len(taken(*jobs, boxed, asking=many)) == 4
    assert taken(boxed, asking=replace(many, containers=False)) == []


def test_requirements_come_back_from_their_text() -> None:
    pools: dict[str, Any] = {"force_generic": True, "submit_pools": ("a", "b"), "walltime": 600}
    for changes in (
        {},
        {"gpus": 2},
        {"container": True},
        {"gpus": 1, "container": True},
        {"share": "a"},
        pools,
    ):
        text = requirements(**changes)
        assert Requirements.from_text(text).text == text
    assert Requirements.from_text(requirements(**pools)).submit_pools == ("a", "b")
    older = Requirements.from_text('["atlas","","alice",1,500,3600,false]')
    assert (older.cpu_time, older.walltime) == (0, 3600), "seconds, as they were meant"
    assert Requirements.from_text(requirements(gpus=2)).gpus == 2
    assert Requirements.from_text(requirements(container=True)).container
    assert Requirements.from_text(requirements(share="a")).share == "a"
    assert "share" not in requirements(share="default"), "as in older stores"


def test_a_segment_longer_than_the_queue_allows_asks_for_what_the_queue_allows() -> None:
    fed = federation([queue(max_walltime=50_000)])
    wanted = job(1, requirements=requirements(cpu_time=864_000))
    where = world(
        federation=fed, jobs=(wanted,), pilots=(pilot(matched=1),), requests=(request(walltime=50_000),)
    )
    assert given_to(where.jobs, matcher.match(where)) == {1: [1]}


@pytest.mark.parametrize("status", ["offline", "paused"])
def test_a_queue_that_starts_nothing_gives_no_jobs_but_hears_its_pilots(status: str) -> None:
    fed = federation([queue(status=status)])
    decision = matcher.match(world(federation=fed, jobs=(job(1),), pilots=(pilot(),), requests=(request(),)))
    assert decision.changes == (ClaimRequest(pilot=1, queue="Q"),), "its heartbeat"


@pytest.mark.parametrize("present", [(), (pilot(1, PilotState.FAILED),), (pilot(2),)])
def test_a_pilot_that_is_not_alive_is_given_nothing(present: tuple[Pilot, ...]) -> None:
    assert matcher.match(world(jobs=(job(1),), requests=(request(),), pilots=present)).changes == ()


@pytest.mark.parametrize("state", [PilotState.CREATED, PilotState.SUBMITTED])
def test_a_pilot_that_asks_has_called_home_and_its_jobs_are_counted(state: PilotState) -> None:
    asking = pilot(1, state, matched=2, heartbeat=None)
    decision = matcher.match(world(jobs=(job(1),), requests=(request(),), pilots=(asking,)))
    (home,), (sent,) = decision.moves, decision.requests
    assert (home.kind, home.ids, home.source, home.target) == ("pilot", (1,), state, PilotState.RUNNING)
    assert home.changes == {"heartbeat": NOW}
    assert isinstance(sent, ClaimRequest)
    assert [head.jobs for head in sent.heads] == [1]


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Job], list[MatchRequest], list[Pilot]]:
    shapes = st.builds(
        requirements,
        st.sampled_from([ALICE, BOB]),
        cores=st.integers(1, 4),
        memory=st.sampled_from([0, 500, 2000]),
        cpu_time=st.sampled_from([6000, 864_000]),
        private=st.booleans(),
        gpus=st.sampled_from([0, 0, 1]),
        container=st.booleans(),
        share=st.sampled_from(["default", "default", "physics", "biology", "rest"]),
    )
    rows = draw(st.lists(st.tuples(shapes, st.integers(1, 1000), st.sampled_from(["Q", "q2"])), max_size=40))
    jobs = [
        job(id_, requirements=text, priority=priority, queue=name)
        for id_, (text, priority, name) in enumerate(rows, start=1)
    ]
    requests = [
        request(
            id_,
            queue=draw(st.sampled_from(["Q", "q2"])),
            kind=draw(st.sampled_from(["generic", "private"])),
            owner=draw(st.sampled_from([ALICE, BOB])),
            cores=draw(st.integers(0, 16)),
            memory=draw(st.sampled_from([0, 1000, 5000])),
            gpus=draw(st.sampled_from([0, 2])),
            containers=draw(st.booleans()),
            walltime=draw(st.sampled_from([100, 1000, 100_000])),
            max_jobs=draw(st.integers(0, 20)),
        )
        for id_ in range(1, draw(st.integers(1, 4)) + 1)
    ]
    return jobs, requests, [pilot(entry.pilot, queue=entry.queue, matched=1) for entry in requests]


@given(crowds(), st.integers(0, 2**32))
def test_no_job_goes_to_two_pilots_and_none_takes_more_than_it_has_room_for(
    crowd: tuple[list[Job], list[MatchRequest], list[Pilot]], seed: int
) -> None:
    jobs, requests, pilots = crowd
    fed = federation([queue("Q"), queue("q2")])
    here = world(seed=seed, federation=fed, jobs=tuple(jobs), requests=tuple(requests), pilots=tuple(pilots))
    decision = matcher.match(here)
    given = given_to(jobs, decision)
    by_id = {entry.id: entry for entry in jobs}
    for asked in requests:
        mine = [by_id[id_] for id_ in given.get(asked.pilot, [])]
        wants = [Requirements.from_text(entry.requirements) for entry in mine]
        assert len(mine) <= asked.max_jobs
        assert {entry.queue for entry in mine} <= {asked.queue}
        assert sum(want.cores for want in wants) <= asked.cores
        assert asked.memory == 0 or sum(want.memory for want in wants) <= asked.memory
        assert sum(want.gpus for want in wants) <= asked.gpus
        assert asked.containers or not any(want.container for want in wants)
        assert all(want.seconds(10) <= asked.walltime for want in wants)
        assert all(
            want.owner == asked.owner.name if asked.kind == "private" else not want.private for want in wants
        )
    backwards = replace(
        here, jobs=tuple(jobs[::-1]), requests=tuple(requests[::-1]), pilots=tuple(pilots[::-1])
    )
    assert to_json(matcher.match(backwards)) == to_json(decision)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32))
def test_a_pilot_never_goes_without_while_something_fits(jobs: int, cores: int, seed: int) -> None:
    waiting = [
        job(id_, priority=id_, requirements=requirements(memory=id_ % 5)) for id_ in range(1, jobs + 1)
    ]
    assert len(taken(*waiting, asking=request(cores=cores, max_jobs=50), seed=seed)) == min(jobs, cores)


@given(crowds(), st.integers(0, 2**32))
def test_columns_that_are_kept_draw_what_columns_made_anew_do(
    crowd: tuple[list[Job], list[MatchRequest], list[Pilot]], seed: int
) -> None:
    jobs, requests, pilots = crowd
    fed = federation([queue("Q"), queue("q2")], shares=(GlobalShare(name="default"), *SHARES))
    for asked, asking in zip(requests, pilots, strict=True):
        left = Counter((entry.requirements, entry.priority) for entry in jobs if entry.queue == asked.queue)
        standing = [Level(text, priority, count) for (text, priority), count in left.items()]
        found, turns = columns(queue(asked.queue), standing), ShareTurns(fed.shares, ())
        drawn = draw(found, asked, asking, seed, turns=turns)
        for one in drawn:
            found.remove(one, 1)
        left.subtract(drawn)
        for text in {text for text, _ in left}:
            highest = max((at for (of, at), count in left.items() if of == text and count), default=0)
            assert found.head(text) == highest
        now = [Level(text, priority, count) for (text, priority), count in left.items()]
        anew = columns(queue(asked.queue), now)
        second = draw(found, asked, asking, seed + 1, turns=deepcopy(turns))
        assert second == draw(anew, asked, asking, seed + 1, turns=turns)


UNIFIED = [queue("UNI"), queue("ONE", parent="UNI"), queue("TWO", parent="UNI")]


def _under_unified(*jobs: Job, shares: tuple[GlobalShare, ...] = (), **of_world: Any) -> World:
    where = federation(UNIFIED)
    where = replace(where, shares=shares) if shares else where
    return asked(*jobs, asking=request(queue="UNI"), by=pilot(queue="UNI"), where=where, **of_world)


def test_b2_a_pilot_of_a_unified_queue_draws_its_pseudo_queue_by_priority() -> None:
    seen = _under_unified(job(1, priority=750, queue="ONE"), job(2, priority=250, queue="TWO"))
    first = Counter(ids[0] for ids in drawn(seen, range(2000)))
    assert first[1] / first[2] == pytest.approx(3, rel=0.15)


def test_b2_it_gets_nothing_that_does_not_fit_and_asks_in_the_pseudo_queues_name() -> None:
    wide = job(1, queue="ONE", requirements=requirements(cores=8))
    seen = _under_unified(wide, job(2, queue="TWO"))
    assert [*drawn(seen, range(5))] == [[2]] * 5
    (claim,) = matcher.match(seen).requests
    assert claim.queue == "TWO"
    assert [*drawn(_under_unified(wide), range(2))] == [[]] * 2


def test_b2_the_share_furthest_below_its_target_goes_first_over_all_pseudo_queues() -> None:
    jobs = [
        job(1, priority=900, queue="ONE", share="a", requirements=requirements(share="a")),
        job(2, priority=1, queue="TWO", share="b", requirements=requirements(share="b")),
    ]
    counts = (JobCount(queue="ONE", share="a", state=JobState.RUNNING, jobs=5),)
    seen = _under_unified(*jobs, shares=(GlobalShare(name="a"), GlobalShare(name="b")), counts=counts)
    assert [*drawn(seen, range(5))] == [[2]] * 5
