"""A federation is changed while work is under way: nothing that runs or is kept is lost without a word."""

import logging
from dataclasses import replace

import pytest

from pilotage.flow.calls.administration import federation_changes
from pilotage.flow.calls.administration.federation_changes import WorkInTheWay, load, review, save
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import ComputingElement, Federation, Queue, Server
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, Replica
from pilotage.store import FederationRenamed
from pilotage.store.pilots.table import pilots
from pilotage.testing.stores import create, new_transfer

from .house import House, attempts


def in_force(house: House) -> Federation:
    return house.store.federation()


def with_other_queue(house: House) -> Federation:
    """The federation with south's queue in place of north's."""
    found = in_force(house)
    other = Queue(name="south-queue", site="south", storage="south-disk")
    return replace(found, queues=(other,))


def with_storage(house: House, **values: object) -> Federation:
    found = in_force(house)
    changed = (replace(one, **values) if one.name == "south-disk" else one for one in found.storages)  # type: ignore[arg-type]
    return replace(found, storages=tuple(changed))


def run_one(house: House) -> int:
    """A task with one job that runs, and one that waits."""
    task = house.task(command=("run",), jobs=2, outputs=("out",), walltime=60)
    house.take("broker")
    house.take("stage")
    pilot = house.pilot()
    ((job, attempt),) = attempts(house.match(pilot, most=1))
    house.tell(pilot, Report(job=job, attempt=attempt, state="running"))
    assert house.states(task)[JobState.RUNNING] == 1
    return task


def test_a_queue_with_running_jobs_is_not_removed(house: House) -> None:
    task = run_one(house)
    without = with_other_queue(house)
    with pytest.raises(WorkInTheWay) as refused:
        save(house.store, without, "olga")
    told = str(refused.value)
    assert f"queue north-queue is removed, with 1 running job of task {task}" in told
    assert "`pilotage queues drain north-queue" in told
    assert in_force(house).queues[0].name == "north-queue"
    found = review(house.store, without)
    assert [effect.lost for effect in found.effects] == [True, False, False]
    texts = "\n".join(effect.text for effect in found.effects)
    assert "1 activated job: they are brokered again immediately" in texts
    assert "1 live pilot: Pilotage forgets them" in texts
    save(house.store, without, "olga", force=True)
    assert in_force(house).queues[0].name == "south-queue"


def test_a_queue_does_not_change_its_storage_below_running_jobs(house: House) -> None:
    run_one(house)
    found = in_force(house)
    moved = replace(found, queues=(replace(found.queues[0], storage="south-disk"),))
    with pytest.raises(
        WorkInTheWay, match="gets storage south-disk in place of north-disk, with 1 running job"
    ):
        save(house.store, moved, "olga")


ELEMENT = ComputingElement(
    kind="slurm",
    options={"ssh": "old.example", "partition": "short"},
    servers=(Server(name="a"), Server(name="b", options={"ssh": "b.example"})),
)


@pytest.mark.parametrize(
    ("after", "stays"),
    [
        (replace(ELEMENT, options={"ssh": "new.example", "partition": "short"}), False),
        (replace(ELEMENT, options={"partition": "short"}), False),
        (replace(ELEMENT, kind="pbs"), False),
        (None, False),
        (replace(ELEMENT, options={"ssh": "old.example", "partition": "long"}), True),
        (replace(ELEMENT, servers=(Server(name="a"),)), True),
        (replace(ELEMENT, servers=(), max_pilots=3), True),
        (replace(ELEMENT, servers=(Server(name="a", options={"ssh": "c.example"}),)), False),
    ],
)
def test_a_queue_is_not_moved_to_another_batch_system_below_running_jobs(
    house: House, after: ComputingElement | None, stays: bool
) -> None:
    """Its pilots, submitted to server a, would not be found there, and count as ended."""
    found = in_force(house)
    save(house.store, replace(found, queues=(replace(found.queues[0], computing_element=ELEMENT),)), "olga")
    run_one(house)
    with house.store.database.engine.begin() as connection:
        connection.execute(pilots.update().values(broker="a", reference="17"))
    changed = replace(found, queues=(replace(found.queues[0], computing_element=after),))
    if stays:
        assert save(house.store, changed, "olga")
        return
    with pytest.raises(WorkInTheWay, match="from another batch system, with 1 running job of task"):
        save(house.store, changed, "olga")
    told = [effect.text for effect in review(house.store, changed).effects]
    assert any("1 live pilot: they are not found there" in text for text in told)


def test_a_batch_system_may_change_while_no_pilot_is_there(house: House) -> None:
    found = in_force(house)
    element = replace(ELEMENT, options={"ssh": "new.example"})
    assert save(
        house.store, replace(found, queues=(replace(found.queues[0], computing_element=element),)), "o"
    )
    assert save(house.store, found, "o")


@pytest.mark.parametrize("option", ["endpoint_url", "host", "port"])
def test_a_storage_is_not_moved_by_its_options(house: House, option: str) -> None:
    create(house.store, File(name="a", size=1, checksum=""), Replica(file="a", storage="south-disk"))
    save(house.store, with_storage(house, options={option: "http://old"}), "olga", force=True)
    for options in ({option: "http://new"}, {}):
        with pytest.raises(WorkInTheWay, match=f"gets another {option} among its options, with 1 known file"):
            save(house.store, with_storage(house, options=options), "olga")
    assert save(house.store, with_storage(house, options={option: "http://old", "key_file": "x"}), "olga")


def test_what_waits_at_a_removed_queue_goes_on_elsewhere(house: House) -> None:
    """The promise of the guide: what is under way goes on."""
    task = house.task(command=("run",), jobs=2, walltime=60)
    house.take("broker")
    house.take("stage")
    assert house.states(task) == {JobState.ACTIVATED: 2}
    both = replace(in_force(house), queues=(*in_force(house).queues, *with_other_queue(house).queues))
    save(house.store, both, "olga")
    save(house.store, replace(both, queues=both.queues[1:]), "olga")
    house.take("watch")
    assert house.states(task) == {JobState.DEFINED: 2}


@pytest.mark.parametrize("change", ["removed", "moved"])
def test_a_storage_with_files_is_neither_removed_nor_moved(house: House, change: str) -> None:
    create(house.store, *(File(name=name, size=1, checksum="") for name in ("a", "b")))
    create(house.store, Replica(file="a", storage="south-disk"), Replica(file="b", storage="south-disk"))
    create(house.store, Replica(file="b", storage="north-disk"))
    create(house.store, new_transfer("a", source="south-disk", destination="north-disk"), time=house.now)
    changed = with_storage(house, url="file:///elsewhere")
    if change == "removed":
        changed = replace(changed, storages=changed.storages[:1])
    with pytest.raises(WorkInTheWay) as refused:
        save(house.store, changed, "olga")
    assert "2 known files, 1 of which no other storage has; 1 live transfer" in str(refused.value)
    assert "as another storage" in str(refused.value)
    assert save(house.store, changed, "olga", force=True)


def test_a_storage_is_not_moved_below_running_jobs(house: House) -> None:
    run_one(house)
    found = in_force(house)
    moved = replace(found, storages=(replace(found.storages[0], url="file:///new"), found.storages[1]))
    with pytest.raises(
        WorkInTheWay, match=r"storage north-disk gets the URL .* 1 running job at queue north-queue"
    ):
        save(house.store, moved, "olga")


def test_a_change_that_loses_nothing_is_made_and_told(house: House) -> None:
    run_one(house)
    found = in_force(house)
    offline = replace(
        found,
        queues=(replace(found.queues[0], status="offline"),),
        storages=(*found.storages[:1], replace(found.storages[1], options={"key_file": "secret"})),
        staging=replace(found.staging, delivery_slots=7),
    )
    seen = review(house.store, offline)
    assert seen.effects == ()
    assert [change.text for change in seen.changes] == [
        "  storages.south-disk.options: otherwise -> as in the file",
        "  queues.north-queue.status: online -> offline",
        "  staging.delivery_slots: 40 -> 7",
    ]
    assert in_force(house) == found, "a review changes nothing"
    save(house.store, offline, "olga")
    with pytest.raises(FederationRenamed):
        review(house.store, replace(offline, name="another"))


def test_a_restart_undoes_no_live_changes(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """The file is loaded only where it declares something else than when it was loaded."""
    caplog.set_level(logging.INFO)
    file = in_force(house)
    load(house.store, file, "/etc/fed.yaml")
    drained = replace(file, queues=(replace(file.queues[0], status="offline"),))
    save(house.store, drained, "olga")
    load(house.store, file, "/etc/fed.yaml")
    assert in_force(house) == drained
    assert "/etc/fed.yaml is as it was when it was loaded as version" in caplog.text
    edited = replace(file, staging=replace(file.staging, delivery_slots=7))
    load(house.store, edited, "/etc/fed.yaml")
    assert in_force(house) == edited
    load(house.store, file, "/etc/fed.yaml")
    assert in_force(house) == file, "what was taken back is a change, too"


def test_a_file_that_was_loaded_live_is_known_to_the_next_start(house: House) -> None:
    file = in_force(house)
    load(house.store, file, "/etc/fed.yaml")
    edited = replace(file, staging=replace(file.staging, delivery_slots=7))
    save(house.store, edited, "olga", "/etc/fed.yaml")
    drained = replace(edited, queues=(replace(file.queues[0], status="offline"),))
    save(house.store, drained, "olga")
    load(house.store, edited, "/etc/fed.yaml")
    assert in_force(house) == drained
    load(house.store, drained, "/srv/moved.yaml")
    assert in_force(house) == drained


def test_the_first_start_after_an_upgrade_undoes_nothing_either(house: House) -> None:
    """Stores of before remember no files, but which versions starts loaded."""
    file = in_force(house)
    house.store.save_federation(file, "up")
    drained = replace(file, queues=(replace(file.queues[0], status="offline"),))
    house.store.save_federation(drained, "olga")
    load(house.store, file, "/etc/fed.yaml")
    assert in_force(house) == drained


def test_a_changed_file_is_refused_at_a_start_as_it_is_live(house: House) -> None:
    load(house.store, in_force(house), "/etc/fed.yaml")
    run_one(house)
    without = with_other_queue(house)
    with pytest.raises(WorkInTheWay):
        load(house.store, without, "/etc/fed.yaml")
    load(house.store, without, "/etc/fed.yaml", force=True)
    assert in_force(house) == without


def test_a_refusal_tells_so_many_losses_and_how_many_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federation_changes, "MOST_TOLD", 1)
    run_one(house)
    found = in_force(house)
    moved = replace(found, storages=(replace(found.storages[0], url="file:///new"), found.storages[1]))
    changed = replace(moved, queues=with_other_queue(house).queues)
    with pytest.raises(WorkInTheWay, match="and 1 more"):
        save(house.store, changed, "olga")
