"""What an iteration of the director rests on: period, shares, room, servers, pools, sites (P2 to P8, M8)."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.circuit_breakers.breaker import Tripped
from pilotage.model.documents.decision import Begin, Create, Decision
from pilotage.model.documents.world import TaskQueue
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.constants import GenericIdentity, SubmitPool
from pilotage.model.records.federation import (
    ComputingElement,
    DirectorConstants,
    Federation,
    Server,
    Site,
)
from pilotage.model.records.observations import ListMatch, PoolReport, ServerReport
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.work import NewPilot, Pilot
from pilotage.model.values.identity import Identity
from pilotage.policies.pilots import director, list_match, withdrawal
from pilotage.testing import ALICE, BOB, NOW, federation, pilot, queue, requirements, world

LONG = 10_800_000
"""HS23 seconds of work that is not boosted: 12.5 days on a core of 10 HS23."""


def line(jobs: int, priority: int = 500, at: str = "Q", owner: Identity = ALICE, **asked: Any) -> TaskQueue:
    text = requirements(owner, **({"cpu_time": LONG} | asked))
    return TaskQueue(queue=at, requirements=text, jobs=jobs, priority=priority)


def made(decision: Decision) -> list[NewPilot]:
    return [
        record
        for change in decision.changes
        if isinstance(change, Create)
        for record in change.records
        if isinstance(record, NewPilot)
    ]


def notes(decision: Decision, what: str) -> list[Any]:
    return [note[what] for note in decision.notes["task_queues"]]


def with_pool(**parts: Any) -> Federation:
    return federation([queue(max_pilots=1000)], **parts)


# Iterations of P2


def test_p2_there_is_one_iteration_in_a_period_however_often_the_director_is_asked() -> None:
    fed = with_pool(director=DirectorConstants(pilots_per_iteration=10))
    first = world(federation=fed, task_queues=(line(10_000),))
    decision = director.provision(first)
    assert decision.changes[0] == Begin(step="provision", last=None)
    assert 5 <= len(made(decision)) <= 40, "20 on average"
    for seconds in (0, 1, 59.9):
        later = replace(first, iterated=NOW, time=NOW + seconds)
        assert director.provision(later).changes == ()
        assert director.due_in(later) == pytest.approx(60 - seconds)
    again = director.provision(replace(first, iterated=NOW, time=NOW + 60))
    assert again.changes[0] == Begin(step="provision", last=NOW)
    assert made(again)


def test_p2_where_nothing_waits_no_iteration_begins() -> None:
    assert director.provision(world(iterated=NOW - 3600)).changes == ()
    assert director.provision(world(task_queues=(line(0), line(5, at="elsewhere")))).changes == ()


def withdrawn(id_: int, error: str = withdrawal.REASON) -> Pilot:
    return replace(pilot(id_, state=PilotState.CANCELLED), created=NOW, since=NOW + 1, error=error)


def test_p2_an_iteration_of_which_all_pilots_were_withdrawn_is_soon_followed_by_another() -> None:
    first = world(federation=with_pool(), task_queues=(line(1),), iterated=NOW, time=NOW + 10)
    assert director.due_in(first) == 50
    assert director.due_in(replace(first, pilots=(withdrawn(1), withdrawn(2)))) == 0
    assert director.due_in(replace(first, pilots=(withdrawn(1),), time=NOW + 2)) > 0, (
        "not as often as one likes"
    )
    for other in (pilot(2), withdrawn(2, "its slot was taken")):
        left = replace(first, pilots=(withdrawn(1), replace(other, created=NOW)))
        assert director.due_in(left) == 50, "some of it is left, or ended otherwise"


def test_p2_an_iteration_without_room_for_any_pilot_begins_when_there_is_room() -> None:
    full = tuple(replace(pilot(id_), created=NOW - 900) for id_ in (1, 2))
    fed = federation([queue(max_pilots=2)])
    first = world(federation=fed, task_queues=(line(50),), pilots=full, iterated=NOW - 60)
    decision = director.provision(first)
    assert (decision.changes, notes(decision, "submitted")) == ((), [0])
    begun = director.provision(replace(first, pilots=full[:1], time=NOW + 3))
    assert begun.changes[0] == Begin(step="provision", last=NOW - 60)
    assert len(made(begun)) == 1


# P2 and P12: priorities, and shares of owners


def test_p2_each_task_queue_counts_with_its_own_priority() -> None:
    """Task queues of alice, alice and bob at priority 500 want 20 each, as in the published formula."""
    lines = (line(10, memory=1), line(10, memory=2), line(10, owner=BOB))
    fed = with_pool(director=DirectorConstants(pilots_per_iteration=30))
    assert notes(director.provision(world(federation=fed, task_queues=lines)), "mean") == [20, 20, 20]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4000), st.integers(1, 99)), min_size=1, max_size=6))
def test_p2_pilots_per_priority_and_per_job_are_those_of_the_formula_whoever_owns_the_work(
    many: list[tuple[bool, int, int]],
) -> None:
    lines = tuple(
        line(jobs, priority, at=f"q{n}", owner=BOB if is_bob else ALICE)
        for n, (is_bob, priority, jobs) in enumerate(many)
    )
    constants = DirectorConstants(pilots_per_iteration=1000)
    queues = [queue(f"q{n}", max_pilots=10_000) for n in range(len(many))]
    decision = director.provision(world(federation=federation(queues, director=constants), task_queues=lines))
    per_priority = 1000 / sum(max(1, priority) for _, priority, _ in many)
    per_job = 1000 / sum(jobs for _, _, jobs in many)
    assert notes(decision, "mean") == pytest.approx(
        [per_priority * max(1, priority) + per_job * jobs for _, priority, jobs in many]
    )


def test_p12_a_share_belongs_to_its_owner_however_many_task_queues_the_work_is_spread_over() -> None:
    queues = [queue(f"q{n}", max_pilots=10_000) for n in range(11)]
    fed = federation(queues, director=DirectorConstants(policy="balanced", pilots_per_iteration=1000))
    spread = tuple(line(100, at=f"q{n}") for n in range(10))
    alone = line(1000, at="q10", owner=BOB)
    decision = director.provision(world(federation=fed, task_queues=(*spread, alone)))
    means = dict(zip(notes(decision, "queue"), notes(decision, "mean"), strict=True))
    assert sum(mean for name, mean in means.items() if name != "q10") == pytest.approx(means["q10"])


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=6), st.integers(1, 4000))
def test_p12_the_task_queues_of_an_owner_divide_the_highest_of_their_priorities(
    many: list[int], other: int
) -> None:
    lines = [line(1, priority, memory=n) for n, priority in enumerate(many)]
    constants = DirectorConstants(policy="balanced", pilots_per_iteration=1000)
    decision = director.provision(
        world(federation=with_pool(director=constants), task_queues=(*lines, line(1, other, owner=BOB)))
    )
    per_job = 500 / (len(many) + 1)
    shares = [mean - per_job for mean in notes(decision, "mean")]
    owners = ["bob" in text for text in notes(decision, "requirements")]
    hers = sum(share for share, is_bob in zip(shares, owners, strict=True) if not is_bob)
    assert hers == pytest.approx(500 * max(many) / (max(many) + other), rel=1e-6)


# P1 in time


def test_p1_work_is_in_hs23_seconds_and_time_is_that_over_the_power_of_the_cores() -> None:
    fed = federation(
        [
            queue("slow", max_pilots=10_000, core_power=5),
            queue("fast", max_pilots=10_000, core_power=20),
            queue("unknown", max_pilots=10_000),
        ]
    )
    lines = tuple(line(10, at=name, cores=2, cpu_time=2_160_000) for name in ("slow", "fast", "unknown"))
    decision = director.provision(world(federation=fed, task_queues=lines))
    means = dict(zip(notes(decision, "queue"), notes(decision, "mean"), strict=True))
    each = 40 * (1 / 3 + 1 / 3)
    assert means["slow"] == pytest.approx(each * 1_080_000 / 216_000)
    assert means["fast"] == pytest.approx(each * 1_080_000 / 54_000)
    assert means["unknown"] == pytest.approx(each * 1_080_000 / 108_000)
    walltimes = {record.queue: record.walltime for record in made(decision)}
    assert walltimes["slow"] == 216_000


# P4 and its room


def test_p4_room_is_shared_by_the_means_so_that_priorities_are_followed() -> None:
    """Of 1000 to 1 with as many jobs, the formula gives 3 to 1: half of it goes by jobs."""
    lines = (line(1000, 1000), line(1000, 1, owner=BOB))
    served: Counter[bool] = Counter()
    for seed in range(300):
        found = made(director.provision(world(seed=seed, task_queues=lines)))
        assert len(found) == 10
        served.update("alice" in record.requirements for record in found)
    assert served[True] / served[False] == pytest.approx(
        40 * (1000 / 1001 + 0.5) / (40 * (1 / 1001 + 0.5)), rel=0.1
    )


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 3000)), min_size=1, max_size=6),
    st.integers(0, 30),
    st.integers(0, 2**32),
)
def test_p4_all_of_the_room_is_used_and_no_more(lines: list[tuple[int, int]], room: int, seed: int) -> None:
    busy = tuple(line(jobs, priority, memory=n) for n, (jobs, priority) in enumerate(lines))
    fed = federation([queue(max_pilots=room + 1)])
    decision = director.provision(world(seed=seed, federation=fed, task_queues=busy, pilots=(pilot(1),)))
    targets, bounds = notes(decision, "target"), notes(decision, "bound")
    asked = sum(min(target, bound) for target, bound in zip(targets, bounds, strict=True))
    assert len(made(decision)) == min(room, asked)


# M8 at sites


@pytest.mark.parametrize(("throttle", "most"), [({"max_jobs": 12}, 12), ({"max_submitting_jobs": 9}, 11)])
def test_m8_a_site_is_given_no_more_pilots_than_its_throttle_lets_in(
    throttle: dict[str, Any], most: int
) -> None:
    fed = federation([queue("Q"), queue("q2")])
    fed = replace(fed, sites=(Site(name="HOME", nucleus=True, **throttle),))
    here = tuple(pilot(n, queue="q2", site="HOME") for n in (1, 2))
    lines = (line(5000), line(5000, at="q2"))
    unanswered = world(federation=fed, task_queues=lines, pilots=here)
    assert not made(director.provision(unanswered)), "nobody knows yet how many jobs of others are there"
    ad = Advertisement(site="HOME", source="native", number=1, time=NOW - 9, pilots=0, submitting=0)
    decision = director.provision(replace(unanswered, advertisements=(ad,)))
    assert len(made(decision)) + len(here) == most
    creates = [change for change in decision.changes if isinstance(change, Create)]
    claims = {(claim.counter, claim.key, claim.limit) for create in creates for claim in create.claims}
    assert ("pilots_by_site", ("HOME", None), next(iter(throttle.values()))) in claims
    assert {record.site for record in made(decision)} == {"HOME"}


# P7 and its identities


def test_p7_a_task_may_force_generic_pilots_and_a_site_may_take_only_one_kind() -> None:
    def kinds(asked: dict[str, Any], **element: Any) -> set[str]:
        fed = federation([queue(computing_element=ComputingElement(**element))])
        return {
            one.kind
            for one in made(director.provision(world(federation=fed, task_queues=(line(90, **asked),))))
        }

    assert kinds({}) == {"generic", "private"}
    assert kinds({"force_generic": True}) == {"generic"}
    assert kinds({}, pilot_kinds=("private",)) == {"private"}
    assert kinds({"private": True}, pilot_kinds=("private", "generic")) == {"private"}
    assert kinds({"private": True}, pilot_kinds=("generic",)) == set()
    assert kinds({"force_generic": True}, pilot_kinds=("private",)) == set()


def test_p7_generic_identity_and_fraction_are_those_of_the_vo() -> None:
    constants = DirectorConstants(
        generic_identity={"atlas": GenericIdentity(name="atlas-pilot", group="pilots")},
        private_pilot_fraction_by_vo={"atlas": 0.0, "cms": 1.0},
    )
    fed = with_pool(director=constants)
    decision = director.provision(world(federation=fed, task_queues=(line(50), line(50, owner=BOB))))
    assert {(one.kind, one.owner) for one in made(decision)} == {
        ("generic", Identity(name="atlas-pilot", vo="atlas", group="pilots")),
        ("private", BOB),
    }


# P5 and its pools


def test_p5_pools_are_tried_in_random_order_and_a_full_one_passes_to_the_next() -> None:
    constants = DirectorConstants(
        submit_pools={name: SubmitPool(total_threads_in_pool=2) for name in ("a", "b", "c")},
        default_submit_pools=("a", "b"),
    )
    fed = with_pool(director=constants)

    def pools(seed: int, *reports: PoolReport, **asked: Any) -> set[str]:
        here = world(seed=seed, federation=fed, task_queues=(line(5, **asked),), pool_reports=reports)
        decision = director.provision(here)
        return {one.submit_pool for one in made(decision)} or set(notes(decision, "problem"))

    assert {name for seed in range(30) for name in pools(seed)} == {"a", "b"}
    full = PoolReport(pool="a", submissions=2)
    assert {name for seed in range(30) for name in pools(seed, full)} == {"b"}
    assert pools(1, full, PoolReport(pool="b", submissions=2)) == {"its submit pools are full"}
    assert pools(1, full, submit_pools=("c",)) == {"c"}


def test_p5_a_pool_takes_all_pilots_for_a_queue_as_one_submission() -> None:
    constants = DirectorConstants(submit_pools={"default": SubmitPool(total_threads_in_pool=2)})
    fed = federation([queue("q1"), queue("q2"), queue("q3")], director=constants)
    lines = tuple(line(50, at=name, memory=n) for name in ("q1", "q2", "q3") for n in range(3))
    assert len({one.queue for one in made(director.provision(world(federation=fed, task_queues=lines)))}) == 2


# P8, asked first


def test_p8_where_it_is_asked_for_there_is_no_pilot_without_a_resource() -> None:
    fed = federation([queue(computing_element=ComputingElement(list_match=True))])
    here = world(federation=fed, task_queues=(line(5),))
    (question,) = list_match.to_ask(here)
    assert (question.queue, question.cores, question.memory) == ("Q", 1, 1000)
    assert director.provision(here).changes == (), "no iteration begins before the answer"
    for resources, found in ((0, False), (3, True), (None, True)):
        told = replace(here, list_matches=(replace(question, resources=resources),))
        assert bool(made(director.provision(told))) is found
        assert list_match.to_ask(told) == []
    other = ListMatch(queue="Q", cores=64, memory=1000, walltime=question.walltime, resources=9)
    assert made(director.provision(replace(here, list_matches=(other,)))) == []


def asked_of(*answers: int | None, silent: tuple[str, ...] = ()) -> Any:
    """A world where the servers ce1, ce2 and so on answered so, and the others' breakers are open."""
    names = tuple(f"ce{at}" for at, _ in enumerate(answers, 1)) + silent
    element = ComputingElement(list_match=True, servers=tuple(Server(name=name) for name in names))
    here = world(federation=federation([queue(computing_element=element)]), task_queues=(line(5),))
    questions = {one.server: one for one in list_match.to_ask(here)}
    assert set(questions) == {*names}, "each server is asked for itself"
    told = [replace(questions[name], resources=count) for name, count in zip(names, answers, strict=False)]
    breakers = [
        Tripped(1, 1, None, NOW, NOW + 60).breaker("list-match", ("Q", name), "no route to host")
        for name in silent
    ]
    return replace(here, list_matches=tuple(told), silent_servers=tuple(breakers))


def test_p8_a_server_that_is_silent_keeps_no_pilot_from_the_others() -> None:
    here = asked_of(3, silent=("ce0",))
    assert {one.broker for one in made(director.provision(here))} == {"ce1"}
    assert list_match.to_ask(here) == [], "the breaker of a server that did not answer is open"
    assert [one.server for one in list_match.to_ask(replace(here, time=NOW + 60))] == ["ce0"]


def test_p8_no_resource_holds_for_the_server_that_said_it() -> None:
    for seed in range(9):
        here = replace(asked_of(0, None, 0), seed=seed)
        assert {one.broker for one in made(director.provision(here))} == {"ce2"}


def test_p8_where_no_server_takes_a_pilot_the_reason_names_each() -> None:
    here = asked_of(0, silent=("ce9",))
    decision = director.provision(here)
    assert made(decision) == []
    reason = "server ce1 has no resource for it; server ce9 did not answer: no route to host"
    assert notes(decision, "problem") == [reason]
    assert list_match.problems(here) == [f"Q: {reason}"]


def test_p8_pilots_do_not_wait_for_the_last_answer() -> None:
    here = asked_of(None, 3)
    partly = replace(here, list_matches=here.list_matches[1:])
    assert {one.broker for one in made(director.provision(partly))} == {"ce2"}
    refused = replace(asked_of(0, 3), list_matches=asked_of(0, 3).list_matches[:1])
    assert director.provision(refused).changes == (), "the other one may still take them"


# P6 and its servers


def servers(*names: str, rank: str = "") -> ComputingElement:
    return ComputingElement(servers=tuple(Server(name=name) for name in names), rank=rank, max_pilots=500)


def failed(number: int, server: str, ago: float) -> Pilot:
    one = pilot(number, PilotState.FAILED, broker=server)
    return replace(one, heartbeat=None, created=NOW - ago, since=NOW - ago)


def test_p6_a_failing_server_is_left_alone_and_the_others_take_its_pilots() -> None:
    fed = federation([queue(computing_element=servers("a", "b"))])

    def taken(*known: Pilot) -> Counter[str]:
        found: Counter[str] = Counter()
        for seed in range(20):
            here = world(seed=seed, federation=fed, task_queues=(line(30), line(30, memory=7)), pilots=known)
            found.update(one.broker for one in made(director.provision(here)))
        return found

    assert set(taken()) == {"a", "b"}
    assert set(taken(failed(1, "a", 59))) == {"b"}
    assert taken(failed(1, "a", 61))["a"] == 20, "one tries, each time"
    assert set(taken(failed(1, "a", 59), failed(2, "b", 59))) == set()
    assert set(taken(failed(1, "a", 900), failed(2, "a", 119))) == {"b"}
    called = replace(pilot(3, PilotState.FINISHED, broker="a"), created=NOW - 10)
    assert taken(failed(1, "a", 59), called)["a"] > 20


def test_p6_any_pilot_that_calls_closes_the_breaker() -> None:
    """Also one that was made before those that failed, and waited in the batch system meanwhile."""
    fed = federation([queue(computing_element=ComputingElement(max_pilots=500))])
    old = replace(pilot(9), created=NOW - 900, since=NOW - 300)

    def count(*known: Pilot) -> int:
        return len(made(director.provision(world(federation=fed, task_queues=(line(30),), pilots=known))))

    assert count(failed(1, "", 400), old) > 1, "it began to run after the other had failed"
    assert count(failed(1, "", 200), old) == 1, "what has run for long shows nothing of the server"


@pytest.mark.parametrize("fault", [failed(1, "", 50), replace(pilot(1, PilotState.FINISHED), since=NOW - 50)])
def test_p12_a_probe_that_does_well_is_followed_by_an_iteration_at_once(fault: Pilot) -> None:
    balanced = DirectorConstants(policy="balanced")
    fed = federation([queue(computing_element=ComputingElement(max_pilots=500))], director=balanced)
    fault = replace(fault, created=NOW - 60, matched=0)
    probe = replace(pilot(2), created=NOW - 10, since=NOW - 1, matched=1)

    def due(known: Pilot) -> float:
        here = world(federation=fed, task_queues=(line(30),), pilots=(fault, known), iterated=NOW - 5)
        return director.due_in(here)

    assert due(probe) == 0
    assert due(replace(probe, state=PilotState.SUBMITTED, heartbeat=None, matched=0)) == 55
    assert due(replace(probe, since=NOW - 6)) == 55


def test_p6_a_queue_that_is_declared_otherwise_is_tried_at_once() -> None:
    fed = federation([queue(computing_element=ComputingElement())])
    old, older = failed(1, "", 20), failed(2, "", 900)

    def count(*known: Pilot, changed: float) -> int:
        here = world(federation=fed, task_queues=(line(30),), pilots=known)
        return len(made(director.provision(replace(here, queues_changed={"Q": NOW - changed}))))

    assert count(old, older, changed=30) == 0, "it failed since"
    assert count(old, older, changed=10) == 1, "one tries"
    late = replace(old, since=NOW - 5)
    assert count(late, changed=10) == 1, "it was made by the declaration before, and failed later"
    waiting = replace(pilot(3, PilotState.SUBMITTED), created=NOW - 15, heartbeat=None)
    assert count(old, waiting, changed=10) == 1, "another waits that was made by the declaration before"
    assert count(old, replace(waiting, created=NOW - 5), changed=10) == 0, "one tries already"
    again = failed(4, "", 5)
    assert count(old, older, again, changed=10) == 0
    again = failed(4, "", 60)
    assert count(failed(1, "", 70), older, again, changed=65) == 1, "a minute only, as after a first failure"


def test_p6_a_rank_orders_the_servers_and_the_same_rank_is_drawn() -> None:
    def taken(*free: int) -> set[str]:
        fed = federation(
            [queue(computing_element=servers("a", "b", "c", rank="slots - running - 2 * waiting"))]
        )
        reports = tuple(
            ServerReport(queue="Q", server=name, slots=100, running=100 - slots, waiting=0)
            for name, slots in zip("abc", free, strict=True)
        )
        here = world(federation=fed, task_queues=(line(30),), server_reports=reports)
        return {
            one.broker for seed in range(30) for one in made(director.provision(replace(here, seed=seed)))
        }

    assert taken(5, 90, 10) == {"b"}
    assert taken(50, 9, 50) == {"a", "c"}


def test_live_pilots_of_every_state_hold_room() -> None:
    here = tuple(pilot(n, state) for n, state in enumerate(LIVE_PILOTS))
    assert len(made(director.provision(world(task_queues=(line(500),), pilots=here)))) == 7
