"""Failed deliveries are kept until one arrives, and staging reads past open breakers (F4)."""

from dataclasses import replace

from pilotage.model.circuit_breakers.breaker import Key, LiftedBreaker
from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.decision import Forget
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import File, Replica
from pilotage.policies.staging import preparing
from pilotage.store import Store
from pilotage.store.queues.circuit_breakers import KEPT, MOST_OF_A_STORAGE
from pilotage.testing import NOW
from pilotage.testing.stores import FEDERATION, create, decision, new_transfer
from tests.reading import BROKERED, world_of


def failed(number: int, at: float = NOW, source: str = "CERN-disk", destination: str = "") -> FailedDelivery:
    return FailedDelivery(
        transfer=number,
        attempt=1,
        file=f"bad{number}",
        source=source,
        destination=destination,
        time=at,
        error="refused",
    )


def read(store: Store) -> tuple[FailedDelivery, ...]:
    found = world_of(store, "stage", NOW, 1, 10).failed_deliveries
    assert world_of(store, BROKERED, NOW, 1, 10).failed_deliveries == found
    assert store.snapshots.whole(NOW, 1).failed_deliveries == found
    return found


def test_f4_failures_are_kept_until_their_end_is_cleared(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    told = [failed(1, NOW - 2), failed(2, NOW - 1), failed(3, source="", destination="PIC-disk")]
    create(store, *told)
    create(store, told[0])
    assert read(store) == tuple(told)
    store.commit(decision(Forget(failed_at=(("CERN-disk", ""), ("nobody", "")))), "tester")
    assert read(store) == (told[2],)


def test_f4_failures_are_few_and_not_old(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    create(store, failed(1, NOW - KEPT - 1, source="PIC-disk"))
    create(store, *(failed(10 + number, NOW + number) for number in range(MOST_OF_A_STORAGE + 20)))
    found = read(store)
    assert [one.time - NOW for one in found] == list(range(20, MOST_OF_A_STORAGE + 20))


def test_f4_behind_transfers_from_a_closed_storage_others_are_read(store: Store) -> None:
    store.save_federation(_three_disks(), "tester")
    create(store, *(failed(number) for number in (901, 902, 903)))
    files = [f"f{number}" for number in range(300)]
    create(store, *(File(name=name, size=1, checksum="") for name in [*files, "both", "back"]))
    create(store, *(Replica(file=name, storage="CERN-disk") for name in [*files, "both"]))
    create(store, Replica(file="both", storage="CERN-tape"), Replica(file="back", storage="PIC-disk"))
    create(store, *(new_transfer(name, priority=90) for name in files))
    both, back = create(
        store,
        new_transfer("both", priority=1),
        new_transfer("back", source="PIC-disk", destination="CERN-disk", priority=1),
    )
    world = replace(world_of(store, "stage", NOW, 1, 1000), unawaited=())
    moves = preparing.prepare(world).moves
    assert sorted(id_ for move in moves if move.target is X.PREPARING for id_ in move.ids) == [both, back]


def test_a_lifted_breaker_is_remembered_for_a_week_and_a_storage_s_has_no_failures(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    create(store, failed(1), failed(2, source="PIC-disk"))
    lifted: tuple[Key, ...] = (("server", "CERN-q", "ce1"), ("storage", "CERN-disk", ""))
    store.commit(decision(Forget(lifted=lifted)), "tester")
    world = world_of(store, "provision", NOW, 1)
    assert world.lifted_breakers == (LiftedBreaker(kind="server", place=("CERN-q", "ce1"), time=NOW),)
    assert store.snapshots.whole(NOW, 1).lifted_breakers == world.lifted_breakers
    assert [one.source for one in read(store)] == ["PIC-disk"]
    store.commit(decision(Forget(lifted=(("queue", "CERN-q", ""),)), time=NOW + KEPT + 1), "tester")
    assert [one.kind for one in world_of(store, "provision", NOW, 1).lifted_breakers] == ["queue"]


def test_f2_failures_of_before_a_place_was_lifted_are_marked_in_every_world(store: Store) -> None:
    store.save_federation(FEDERATION, "tester")
    create(store, *(failure(number, NOW + number) for number in (1, 2)), failure(3, NOW, node="n2"))
    store.commit(decision(Forget(lifted=(("node", "CERN-q", "n1"),)), time=NOW + 1), "tester")
    for found in (store.snapshots.failures(NOW + 3), store.snapshots.whole(NOW + 3, 1).failures):
        assert {one.job: one.lifted for one in found} == {1: True, 2: False, 3: False}
    store.commit(decision(Forget(lifted=(("queue", "CERN-q", ""),)), time=NOW + 9), "tester")
    assert {one.lifted for one in store.snapshots.failures(NOW + 9)} == {True}


def failure(job: int, time: float, node: str = "n1") -> Failure:
    return Failure(
        job=job,
        attempt=1,
        task=1,
        owner="alice",
        vo="atlas",
        queue="CERN-q",
        node=node,
        pilot=1,
        pilots=1,
        time=time,
        lasted=1,
    )


def _three_disks() -> Federation:
    tape = Storage(name="CERN-tape", site="CERN", url="file:///tape", tape=True)
    return replace(FEDERATION, storages=(*FEDERATION.storages, tape))


def test_f4_outputs_in_the_scratch_area_of_a_closed_storage_wait(store: Store) -> None:
    store.save_federation(_three_disks(), "tester")
    create(store, *(failed(number) for number in (901, 902, 903)))
    create(store, File(name="out", size=1, checksum=""), Replica(file="out", storage="CERN-tape"))
    create(store, new_transfer("out", source_path=".scratch/test/1.1/out", direction="upload"))
    for time, count in ((NOW, 0), (NOW + 60, 1)):
        world = world_of(store, "stage", time, 1, 1000)
        assert len(preparing.prepare(world).moves) == count
