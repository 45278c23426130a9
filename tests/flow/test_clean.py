"""Copies that nobody wants any more are removed from the catalogue and from their storage."""

import pytest

from pilotage.flow.calls.data.catalogue import forget
from pilotage.flow.steps import clean
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Create, Decision
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.policies.staging import unwanted
from tests.reading import world_of

from .house import House

COPY = ".copies/flow/ligo/f"


def staged(house: House) -> None:
    """A file whose original lies in the south, and its copy in the north."""
    (house.place / "south" / "f").write_bytes(b"four")
    path = house.place / "north" / COPY
    path.parent.mkdir(parents=True)
    path.write_bytes(b"four")
    records = (
        File(name="ligo:f", size=4, checksum=""),
        Replica(file="ligo:f", storage="south-disk"),
        Replica(file="ligo:f", storage="north-disk", path=COPY),
    )
    changes = (Create(records=records, cause="test"),)
    house.store.commit(Decision(step="test", time=house.now, seed=1, changes=changes), "test")


def holders(house: House) -> list[str]:
    entry = house.store.catalogue.entry("ligo:f")
    assert entry is not None
    return [replica.storage for replica in entry.replicas]


def test_a_copy_goes_two_weeks_after_its_last_use_and_never_while_a_task_reads_it(house: House) -> None:
    staged(house)
    task = house.task(inputs=(InputFile(name="f", size=4, replicas=("south-disk",)),))
    house.take("broker")
    house.now += 15 * 86400
    house.take("clean")
    assert holders(house) == ["north-disk", "south-disk"]
    house.now += 4000
    cancel(house.runtime, task, "enough", "test")
    house.take("clean")
    assert holders(house) == ["north-disk", "south-disk"], "its job was cancelled a moment ago"
    house.now += 15 * 86400
    house.take("clean")
    assert holders(house) == ["south-disk"]
    house.take("watch")
    assert not (house.place / "north" / COPY).exists()
    assert (house.place / "south" / "f").exists()


def test_a_copy_that_became_the_last_replica_meanwhile_stays(house: House) -> None:
    staged(house)
    house.now += 15 * 86400
    decided = unwanted.remove(world_of(house.store, "clean", house.now, 1, limit=10))
    assert decided.changes
    entry = house.store.catalogue.entry("ligo:f")
    assert entry is not None
    forget(house.runtime, entry, "south-disk", "user:alice")
    house.store.commit(decided, "clean")
    assert holders(house) == ["north-disk"]


def test_copies_that_must_stay_never_keep_later_ones_from_going(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes first: the last replica of its file, or what jobs wait for or used lately."""
    monkeypatch.setattr(clean, "MOST_COPIES", 2)
    kinds = ("last", "asked", "read", "free", "free2", "free3")
    records: list[File | Replica] = []
    for name in kinds:
        records += [
            File(name=f"ligo:{name}", size=4, checksum=""),
            Replica(file=f"ligo:{name}", storage="north-disk", path=f".copies/flow/ligo/{name}"),
        ]
        if name != "last":
            records.append(Replica(file=f"ligo:{name}", storage="south-disk"))
    changes = (Create(records=tuple(records), cause="test"),)
    house.store.commit(Decision(step="test", time=house.now, seed=1, changes=changes), "test")
    house.task(inputs=(InputFile(name="read", size=4, replicas=("south-disk",)),))
    house.now += 15 * 86400
    house.submit({"inputs": (InputFile(name="asked", size=4, replicas=("south-disk",)),)})
    for _ in range(3):
        house.take("clean")
    left = {
        name
        for name in kinds
        if (entry := house.store.catalogue.entry(f"ligo:{name}")) is not None
        and "north-disk" in {replica.storage for replica in entry.replicas}
    }
    assert left == {"last", "asked", "read"}
