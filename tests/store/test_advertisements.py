"""Advertisements and matches since: claimed in the commit, exact whoever matches at the same time (M5)."""

import random
import threading
from collections import Counter
from dataclasses import replace

import pytest

from pilotage.model.documents.decision import Create
from pilotage.model.records.advertisements import Advertisement, NewAdvertisement
from pilotage.model.records.counters import MATCHES_BY_SITE, PILOTS_BY_SITE, Claim
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.states import JobState as J
from pilotage.model.records.work import NewPilot
from pilotage.store import Store
from pilotage.testing import ALICE, NOW
from pilotage.testing.stores import FEDERATION, create, decision, move, moved, new_jobs, new_pilot, new_task
from tests.reading import world_of

P = PilotState


@pytest.fixture
def house(store: Store) -> Store:
    """A store with a federation."""
    store.save_federation(FEDERATION, "tester")
    return store


def advertise(store: Store, site: str = "CERN", **fields: object) -> Advertisement:
    """Advertise a site; returns what stands now."""
    create(store, NewAdvertisement(**{"site": site, "source": "native"} | fields))  # type: ignore[arg-type]
    return standing(store, site)


def standing(store: Store, site: str = "CERN") -> Advertisement:
    """The advertisement of a site as a world has it."""
    (found,) = [ad for ad in world_of(store, "advertise", NOW, 1).advertisements if ad.site == site]
    return found


def match(store: Store, jobs: list[int], number: int, limit: int, site: str = "CERN") -> int:
    """Match jobs to a site; returns how many were."""
    claim = Claim(counter=MATCHES_BY_SITE, key=(site, number), states=(), limit=limit)
    step = move("job", jobs, J.DEFINED, J.ACTIVATED, {"queue": f"{site}-q"}, claims=(claim,))
    return len(store.commit(decision(step), "tester").accepted[0])


def test_m5_matches_are_counted_and_bounded_since_the_advertisement(house: Store) -> None:
    ad = advertise(house)
    jobs = new_jobs(house, new_task(house), 9)
    assert match(house, jobs[:2], ad.number, 5) == 2
    assert standing(house).matched == 2
    assert match(house, jobs[2:], ad.number, 5) == 3
    assert standing(house).matched == 5


def test_m5_a_new_advertisement_starts_anew_and_fences_what_rests_on_the_old_one(house: Store) -> None:
    old = advertise(house)
    jobs = new_jobs(house, new_task(house), 6)
    match(house, jobs[:2], old.number, 9)
    new = advertise(house)
    assert (new.number, new.matched) == (old.number + 1, 0)
    assert match(house, jobs[2:], old.number, 9) == 0
    assert match(house, jobs[2:], new.number, 3) == 3


def test_m5_nothing_is_matched_to_a_site_that_never_advertised(house: Store) -> None:
    assert match(house, new_jobs(house, new_task(house), 3), 0, 9) == 0


def test_m5_pilots_count_as_the_commit_sees_them(house: Store) -> None:
    made, submitted, running = (new_pilot(house, site="CERN") for _ in range(3))
    moved(house, move("pilot", [submitted, running], P.CREATED, P.SUBMITTED))
    moved(house, move("pilot", [running], P.SUBMITTED, P.RUNNING))
    counts = {"CurrentJobs": 5, "CurrentSubmittingJobs": 3}
    native = advertise(house, attributes=counts, pilots=1, submitting=1)
    # Only one pilot was among the jobs that the batch system counted: the others came later.
    assert (native.pilots, native.other_jobs, native.other_submitting_jobs) == (1, 4, 2)
    pushed = advertise(house, source="pushed", attributes={"CurrentJobs": 40, "CurrentSubmittingJobs": 7})
    # The pilot that nobody submitted yet is none that the site has counted.
    assert (pushed.pilots, pushed.other_jobs, pushed.other_submitting_jobs) == (2, 38, 6)
    moved(house, move("pilot", [made], P.CREATED, P.FAILED))
    assert standing(house).pilot_slots == 2


def test_m5_pilots_that_ended_since_the_batch_system_was_asked_are_no_jobs_of_others(house: Store) -> None:
    """It counted four of ours, two of which waited; all have ended by the time that this is committed."""
    told = {"CurrentJobs": 4, "CurrentSubmittingJobs": 2}
    ad = advertise(house, attributes=told, pilots=4, submitting=2, answered=NOW - 50)
    assert (ad.other_jobs, ad.other_submitting_jobs, ad.time) == (0, 0, NOW - 50)


def test_m5_pilots_count_by_their_slots(house: Store) -> None:
    new_pilot(house, site="CERN", slots=4)
    running = new_pilot(house, site="CERN", slots=3)
    moved(house, move("pilot", [running], P.CREATED, P.SUBMITTED))
    moved(house, move("pilot", [running], P.SUBMITTED, P.RUNNING))
    ad = advertise(house)
    assert ad.pilot_slots == 7
    claim = Claim(counter=PILOTS_BY_SITE, key=("CERN", None), states=LIVE_PILOTS, limit=12, takes=2)
    change = Create(records=(replace(new_pilot_record(), slots=2),) * 4, cause="test", claims=(claim,))
    created = house.commit(decision(change), "tester").created[0]
    assert sum(id_ is not None for id_ in created) == 2
    assert standing(house).pilot_slots == 11


def test_m2_a_stored_ad_is_known_in_any_case(house: Store) -> None:
    ad = advertise(house, source="pushed", attributes={"maxpendingjobs": 3, "PENDINGJOBS": "x"})
    assert dict(ad.attributes) == {"MaxPendingJobs": 3, "PendingJobs": "x"}
    assert (ad.count("MaxPendingJobs"), ad.count("PendingJobs"), ad.other_pending_jobs) == (3, None, 0)


def test_m8_new_pilots_rest_on_the_advertisement_too(house: Store) -> None:
    old, new = advertise(house).number, advertise(house).number
    pilot = new_pilot_record()
    for number, made in ((old, 0), (new, 2)):
        claims = (Claim(counter=MATCHES_BY_SITE, key=("CERN", number), states=(), limit=10**9),)
        change = Create(records=(pilot, pilot), cause="test", claims=claims)
        created = house.commit(decision(change), "tester").created[0]
        assert sum(id_ is not None for id_ in created) == made
    assert standing(house).matched == 0


def new_pilot_record() -> NewPilot:
    """A pilot that is not created."""
    return NewPilot(
        queue="CERN-q",
        requirements="r",
        kind="generic",
        owner=ALICE,
        cores=1,
        memory=0.0,
        walltime=3600.0,
        site="CERN",
    )


def test_m5_counts_survive_a_restart(house: Store, store_url: str) -> None:
    ad = advertise(house)
    match(house, new_jobs(house, new_task(house), 3), ad.number, 5)
    if ":memory:" in store_url:
        pytest.skip("a store in memory ends with its process")
    with_others = Store.open(store_url)
    try:
        assert standing(with_others) == replace(ad, matched=3)
    finally:
        with_others.close()


class Model:
    """What may be at a site at most, counted by hand."""

    def __init__(self) -> None:
        self.matched = 0
        self.pilots: list[int] = []
        self.number = 0


def test_m5_m8_every_route_agrees_with_a_model(house: Store) -> None:
    """Match, make pilots, end them and advertise at random; each answer is the model's."""
    random_ = random.Random(11)
    model, limit = Model(), 6
    jobs = new_jobs(house, new_task(house), 200)
    advertise(house)
    model.number = standing(house).number
    for _ in range(120):
        act = random_.randrange(5)
        wanted = random_.randint(1, 4)
        if act <= 1:
            number = model.number - random_.choice([0, 0, 0, 1])
            expected = min(wanted, max(0, limit - model.matched)) if number == model.number else 0
            assert match(house, jobs[:wanted], number, limit) == expected
            jobs = jobs[expected:]
            model.matched += expected
        elif act == 2:
            claim = Claim(counter=PILOTS_BY_SITE, key=("CERN", None), states=LIVE_PILOTS, limit=limit)
            change = Create(records=(new_pilot_record(),) * wanted, cause="test", claims=(claim,))
            ids = [id_ for id_ in house.commit(decision(change), "tester").created[0] if id_ is not None]
            assert len(ids) == min(wanted, limit - len(model.pilots))
            model.pilots += ids
        elif act == 3 and model.pilots:
            moved(house, move("pilot", [model.pilots.pop()], P.CREATED, P.FAILED))
        elif act == 4:
            advertise(house)
            model.matched, model.number = 0, model.number + 1
        found = standing(house)
        assert (found.number, found.matched, found.pilot_slots) == (
            model.number,
            model.matched,
            len(model.pilots),
        )


def test_m5_m8_side_by_side_no_more_is_taken_than_fits(house: Store) -> None:
    """Matchers race each other and sites that advertise anew: each period has its limit, and no more."""
    limit, workers = 7, 4
    task = new_task(house)
    parts = [new_jobs(house, task, 60) for _ in range(workers)]
    advertise(house)
    taken = Counter[int]()
    lock = threading.Lock()
    ends = threading.Barrier(workers)

    def matcher(own: list[int]) -> None:
        ends.wait()
        for start in range(0, len(own), 3):
            number = standing(house).number
            done = match(house, own[start : start + 3], number, limit)
            with lock:
                taken[number] += done
            if start % 15 == 0:
                advertise(house)

    threads = [threading.Thread(target=matcher, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(taken.values()) <= limit
    assert taken[standing(house).number] == standing(house).matched
    assert sum(taken.values()) > limit
