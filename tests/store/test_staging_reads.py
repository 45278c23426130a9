"""What staging reads of long queues is what the policy would start, had it read them whole (D3, D7)."""

import random
from dataclasses import replace

import pytest

from pilotage.model.documents.world import World
from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import File
from pilotage.policies.staging import preparing, settle
from pilotage.store import Store
from pilotage.testing import NOW
from pilotage.testing.stores import FEDERATION, create, move, moved, new_jobs, new_task, new_transfer, passage
from tests.reading import world_of

X = TransferState


@pytest.mark.parametrize("seed", range(4))
def test_a_pass_starts_what_it_would_start_if_it_had_read_all(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    slots = rng.choice([1, 3, 8])
    constants = StagingConstants(preparing_slots=slots, base_priorities={"s1": 90, "s2": 30})
    store.save_federation(replace(FEDERATION, staging=constants), "tester")
    for number in range(8):
        made = create(
            store,
            *(
                new_transfer(
                    f"f{number}.{n}",
                    share=rng.choice(["s1", "s1", "s2", "s3"]),
                    priority=rng.randint(1, 40),
                    direction=rng.choice(["download", "upload"]),
                )
                for n in range(12)
            ),
            time=NOW - rng.randint(0, 9000),
        )
        if number % 3 == 0:
            moved(store, *passage(made[:1], X.QUEUED, X.DELIVERING), time=NOW)
    read = replace(world_of(store, "stage", NOW, seed, 1000), unawaited=())
    everything = replace(store.snapshots.whole(NOW, seed), unawaited=())
    assert len(read.transfers) < len(everything.transfers)

    def started(world: World) -> list[tuple[int, ...]]:
        return [move.ids for move in preparing.prepare(world).moves]

    assert started(read) == started(everything)
    assert started(read) or slots < 8


@pytest.mark.parametrize("seed", [0, 15, 25])
def test_d7_what_has_aged_goes_first_among_many_shares_and_priorities_behind_full_storages(
    store: Store, seed: int
) -> None:
    rng = random.Random(seed)
    shares = [f"s{number}" for number in range(rng.choice([1, 3, 12]))]
    names = [one.name for one in FEDERATION.storages]
    limits = {name: rng.choice([0, 0, 1, 2]) for name in names}
    storages = tuple(replace(one, transfer_slots=limits[one.name] or None) for one in FEDERATION.storages)
    constants = StagingConstants(
        preparing_slots=rng.choice([1, 3, 8, 20]),
        base_priorities={share: rng.randint(1, 100) for share in shares},
        ageing_timeout=600,
        ageing_period=rng.choice([30, 300]),
    )
    store.save_federation(replace(FEDERATION, storages=storages, staging=constants), "tester")
    most = rng.choice([5, 40, 100])
    for number in range(15):
        made = []
        for n in range(25):
            share, priority = rng.choice(shares), rng.randint(1, most)
            direction = rng.choice(["download", "upload"])
            source, destination = rng.sample(names, 2)
            made.append(
                new_transfer(
                    f"f{number}.{n}",
                    share=share,
                    priority=priority,
                    direction=direction,
                    source=source,
                    destination=destination,
                )
            )
        ids = create(store, *made, time=NOW - rng.randint(0, 15000))
        if number % 4 == 0:
            moved(store, *passage(ids[:2], X.QUEUED, X.DELIVERING), time=NOW)
    read = replace(world_of(store, "stage", NOW, seed, 1000), unawaited=())
    everything = replace(store.snapshots.whole(NOW, seed), unawaited=())

    def started(world: World) -> list[int]:
        return sorted(id_ for one in preparing.prepare(world).moves for id_ in one.ids)

    assert started(read) == started(everything)


def test_d7_of_many_that_age_those_are_read_that_have_waited_longest_whenever_they_were_made(
    store: Store,
) -> None:
    constants = StagingConstants(preparing_slots=1)
    store.save_federation(replace(FEDERATION, staging=constants), "tester")
    low, high = ([new_transfer(f"{p}.{n}", priority=p) for n in range(9)] for p in (10, 20))
    again = create(store, *low, time=NOW - 9000)
    (oldest,) = create(store, new_transfer("oldest", priority=10), time=NOW - 8000)
    create(store, *high, time=NOW)
    # They were put back lately, and wait anew: their storage rested.
    put_back = move("transfer", again, X.PREPARED, X.QUEUED)
    moved(store, *passage(again, X.QUEUED, X.PREPARED), put_back, time=NOW - 4000)
    world = replace(world_of(store, "stage", NOW, 1, 1000), unawaited=())
    assert len(world.transfers) < 19
    assert [move.ids for move in preparing.prepare(world).moves] == [(oldest,)]


def test_d2_downloads_that_no_job_waits_for_are_told_once_they_were_queued_for_a_minute(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    create(store, *(File(name=name, size=1, checksum="") for name in ("wanted", "given-up")))
    (job,) = new_jobs(store, new_task(store), inputs=("wanted",))
    queue = next(queue.name for queue in FEDERATION.queues if queue.storage == "PIC-disk")
    moved(store, move("job", [job], J.DEFINED, J.ASSIGNED, {"queue": queue}))
    (wanted, given_up) = create(store, new_transfer("wanted"), new_transfer("given-up"), time=NOW)
    assert world_of(store, "stage", NOW + 59, 1, 10).unawaited == ()
    for world in (world_of(store, "stage", NOW + 60, 1, 10), store.snapshots.whole(NOW + 60, 1)):
        assert world.unawaited == (given_up,)
    moved(store, move("job", [job], J.ASSIGNED, J.DEFINED, next_attempt=True))
    assert world_of(store, "stage", NOW + 60, 1, 10).unawaited == (wanted, given_up)


def test_a_job_assigned_while_its_transfer_was_cancelled_is_told_of(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    create(store, File(name="f", size=1, checksum=""))
    (transfer,) = create(store, new_transfer("f"))
    moved(store, move("transfer", [transfer], X.QUEUED, X.CANCELLED), time=NOW)
    (job,) = new_jobs(store, new_task(store), inputs=("f",))
    queue = next(queue.name for queue in FEDERATION.queues if queue.storage == "PIC-disk")
    moved(store, move("job", [job], J.DEFINED, J.ASSIGNED, {"queue": queue}), time=NOW + 5)
    world = world_of(store, "stage", NOW + 10, 1, 10)
    assert [one.id for one in world.transfers] == [transfer]
    (again,) = settle.settle(world).moves
    assert (again.ids, again.target) == ((job,), J.DEFINED)


def test_behind_transfers_for_a_full_storage_others_are_read(store: Store) -> None:
    storages = tuple(
        replace(one, transfer_slots=1) if one.name == "CERN-disk" else one for one in FEDERATION.storages
    )
    constants = StagingConstants(preparing_slots=3)
    store.save_federation(replace(FEDERATION, storages=storages, staging=constants), "tester")
    first, second, *_ = create(store, *(new_transfer(f"f{number}", priority=90) for number in range(20)))
    moved(store, *passage([first], X.QUEUED, X.DELIVERING), *passage([second], X.QUEUED, X.PREPARED))
    (last,) = create(store, new_transfer("g", source="PIC-disk", destination="other", priority=1))
    world = replace(world_of(store, "stage", NOW, 1, 100), unawaited=())
    assert [move.ids for move in preparing.prepare(world).moves] == [(last,)]
