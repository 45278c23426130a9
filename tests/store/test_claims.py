"""Claims on capacity: never more is taken than fits, whoever decides at the same time."""

import threading
from collections import Counter

import pytest

from pilotage.model.documents.decision import Create
from pilotage.model.records.counters import Claim
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState, State, TransferState
from pilotage.model.records.work import File, NewPilot
from pilotage.store import Store
from pilotage.testing.stores import (
    bring,
    create,
    decision,
    move,
    moved,
    new_jobs,
    new_pilot,
    new_task,
    new_transfer,
    passage,
)

X, P = TransferState, PilotState


def claim(counter: str, key: tuple[str | int | None, ...], states: tuple[State, ...], limit: int) -> Claim:
    return Claim(counter=counter, key=key, states=states, limit=limit)


def at_queue(limit: int, share: str | None = None) -> Claim:
    return claim("jobs_by_queue", ("CERN-q", share), (J.ACTIVATED, J.STARTING), limit)


def test_only_the_first_that_fit_are_taken(store: Store) -> None:
    jobs = new_jobs(store, new_task(store), 5)
    step = move("job", jobs[::-1], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, claims=(at_queue(3),))
    committed = store.commit(decision(step), "tester")
    assert committed.accepted == ((jobs[4], jobs[3], jobs[2]),)
    assert committed.handed_back == 2


def test_what_is_there_already_counts_in_all_named_states_and_shares(store: Store) -> None:
    task = new_task(store)
    bring(store, new_jobs(store, task, 2, share="a"), J.ACTIVATED)
    bring(store, new_jobs(store, task, 1, share="b"), J.STARTING)
    bring(store, new_jobs(store, task, 4, share="b"), J.RUNNING)
    jobs = new_jobs(store, task, 9, share="b")
    step = move(
        "job", jobs, J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, claims=(at_queue(6), at_queue(3, "b"))
    )
    assert store.commit(decision(step), "tester").accepted == (tuple(jobs[:2]),)


def test_other_keys_do_not_count(store: Store) -> None:
    task = new_task(store)
    bring(store, new_jobs(store, task, 3), J.ACTIVATED)
    jobs = new_jobs(store, task, 3)
    other = claim("jobs_by_queue", ("PIC-q", None), (J.ACTIVATED,), 2)
    step = move("job", jobs, J.DEFINED, J.ACTIVATED, {"queue": "PIC-q"}, claims=(other,))
    assert store.commit(decision(step), "tester").accepted == (tuple(jobs[:2]),)


def test_moves_of_one_decision_see_each_other(store: Store) -> None:
    jobs = new_jobs(store, new_task(store), 6)
    claims = (at_queue(4),)
    steps = [
        move("job", part, J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, claims=claims)
        for part in (jobs[:3], jobs[3:])
    ]
    committed = store.commit(decision(*steps), "tester")
    assert committed.accepted == (tuple(jobs[:3]), tuple(jobs[3:4]))


def test_a_limit_that_is_passed_already_takes_nothing(store: Store) -> None:
    task = new_task(store)
    bring(store, new_jobs(store, task, 5), J.ACTIVATED)
    step = move(
        "job", new_jobs(store, task), J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}, claims=(at_queue(3),)
    )
    assert store.commit(decision(step), "tester").accepted == ((),)


def test_a_total_over_all_keys_can_be_claimed(store: Store) -> None:
    files = [File(name=f"f{n}", size=1, checksum="") for n in range(6)]
    create(store, *files)
    ids = create(store, *[new_transfer(f"f{n}", share=f"s{n % 2}") for n in range(6)])
    moved(store, *passage(ids[:2], X.QUEUED, X.DELIVERING))
    total = claim("transfers_by_share", (None, None), (X.DELIVERING, X.PREPARING), 4)
    step = move("transfer", ids[2:], X.QUEUED, X.PREPARING, claims=(total,))
    assert store.commit(decision(step), "tester").accepted == (tuple(ids[2:4]),)


def test_new_records_claim_too(store: Store) -> None:
    new_pilot(store)
    gone = new_pilot(store)
    moved(store, move("pilot", [gone], P.CREATED, P.FAILED))
    pilot = store.queries.pilot(gone)
    assert pilot is not None
    fields = ("queue", "requirements", "kind", "owner", "cores", "memory", "walltime")
    record = NewPilot(**{name: getattr(pilot, name) for name in fields})
    room = claim("pilots_by_queue", ("CERN-q",), (P.CREATED, P.SUBMITTED, P.RUNNING), 3)
    made = decision(
        Create(records=(record,) * 3, cause="c", claims=(room,)),
        Create(records=(record,), cause="c", claims=(room,)),
    )
    committed = store.commit(made, "tester")
    assert committed.created == ((3, 4, None), (None,))
    assert committed.handed_back == 2


def test_a_counter_that_is_not_kept_is_refused(store: Store) -> None:
    step = move(
        "job", new_jobs(store, new_task(store)), J.DEFINED, J.PENDING, claims=(claim("x", (), (), 1),)
    )
    with pytest.raises(ValueError, match="there is no counter x"):
        store.commit(decision(step), "tester")
    step = move("job", [1], J.DEFINED, J.PENDING, claims=(claim("jobs_by_queue", ("q",), (), 1),))
    with pytest.raises(ValueError, match="jobs_by_queue by 1 columns"):
        store.commit(decision(step), "tester")


def test_two_that_decide_at_once_never_pass_the_limit(store: Store, store_url: str) -> None:
    rounds, limit = 20, 6
    jobs = new_jobs(store, new_task(store), rounds * 10)
    barrier = threading.Barrier(2)
    taken: list[int] = []
    stores = [Store.open(store_url) for _ in range(2)]

    def decide(own: Store, offset: int) -> None:
        for number in range(rounds):
            some = jobs[number * 10 + offset : number * 10 + offset + 5]
            room = claim("jobs_by_queue", (f"q{number}", None), (J.ACTIVATED,), limit)
            step = move("job", some, J.DEFINED, J.ACTIVATED, {"queue": f"q{number}"}, claims=(room,))
            barrier.wait()
            accepted = own.commit(decision(step), "tester").accepted[0]
            taken.extend([number] * len(accepted))

    threads = [threading.Thread(target=decide, args=pair) for pair in zip(stores, (0, 5), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(taken) == dict.fromkeys(range(rounds), limit)
    for own in stores:
        own.close()
