"""Pilots that read from afar and fail because of the storage: its circuit breaker opens (F4)."""

from dataclasses import replace

import pytest

from pilotage.flow.calls.pilots.match import match
from pilotage.flow.calls.places import circuit_breakers
from pilotage.model.documents.world import Report, StorageFault
from pilotage.model.records.federation import BindingConstants, ComputingElement, Link, StagingConstants
from pilotage.model.records.states import JobState
from pilotage.model.records.work import InputFile

from .house import House, attempts, federation

FILES = [f"f{number}" for number in range(6)]


@pytest.fixture
def far(house: House) -> House:
    """Jobs that wait at north, where their files are; pilots at south read them from there."""
    known = federation(house.place)
    (north,) = known.queues
    element = ComputingElement(kind="fake", pilot_slots=4)
    south = replace(
        north, name="south-queue", site="south", storage="south-disk", num_slots=0, computing_element=element
    )
    house.store.save_federation(
        replace(
            known,
            name="flow",
            queues=(north, south),
            storages=tuple(replace(one, remote_reads=True) for one in known.storages),
            links=(Link(source="north", destination="south", throughput_1h=10),),
            binding=BindingConstants(default="elastic", least_gain=60),
            staging=StagingConstants(failing_files=3, storage_rest=60),
        ),
        "test",
    )
    for name in FILES:
        (house.place / "north" / name).write_bytes(b"hello")
        found = InputFile(name=name, size=5, replicas=("north-disk",))
        house.task(inputs=(found,), walltime=3600)
    house.take("broker")
    house.now += 60_000
    return house


def reads(house: House, node: str, **told: object) -> int | None:
    """Have a pilot at south be given a job that reads from north, and tell what came of that."""
    pilot = house.pilot(queue="south-queue")
    answer = match(house.runtime, pilot, 1, 0, 86400, 1, node=node)
    if not answer.works:
        return None
    ((job, attempt),) = attempts(answer)
    ((file,),) = [order.inputs for work in answer.works for order in work.jobs]
    assert file.source == "north-disk"
    fault = StorageFault(file=file.name, source=file.source)
    failed = Report(
        job=job, attempt=attempt, state="failed", kind="storage", error="refused", storage_fault=fault
    )
    running = Report(job=job, attempt=attempt, state="running", read_from=(file.source,))
    house.tell(pilot, running if told else failed)
    return job


def test_f4_reads_that_fail_at_two_machines_open_the_breaker_between_the_storages(
    far: House, caplog: pytest.LogCaptureFixture
) -> None:
    assert reads(far, "n1")
    assert reads(far, "n1")
    assert circuit_breakers.of_storages(far.runtime) == ()
    assert reads(far, "n2")
    (found,) = circuit_breakers.of_storages(far.runtime)
    assert (found.place, found.failures, found.until) == (("north-disk", "south-disk"), 3, far.now + 60)
    assert "moving from north-disk to south-disk: circuit breaker open until" in caplog.text
    far.now += 10  # what may be borrowed is looked up every few seconds
    assert reads(far, "n3") is None, "no more jobs are given to read from there"


def test_f4_a_read_that_succeeds_ends_the_row(far: House) -> None:
    assert reads(far, "n1")
    assert reads(far, "n2")
    assert len(far.store.transfer_queries.failed_deliveries()) == 2
    job = reads(far, "n3", well=True)
    assert far.store.transfer_queries.failed_deliveries() == ()
    assert job
    found = far.store.queries.job(job)
    assert found
    assert found.state is JobState.RUNNING


def refused(house: House, task: int) -> None:
    """Have the task's job fail at a pilot of its queue, whose storage does not answer."""
    pilot = house.pilot()
    ((job, attempt),) = attempts(match(house.runtime, pilot, 1, 0, 86400, 1))
    fault = StorageFault(file="f")
    house.tell(
        pilot,
        Report(
            job=job, attempt=attempt, state="failed", kind="storage", error="refused", storage_fault=fault
        ),
    )
    assert house.states(task) in ({JobState.PENDING: 1}, {JobState.FAILED: 1})


@pytest.mark.slow
def test_f4_attempts_that_a_storage_fails_are_bounded_and_not_used_up_at_once(house: House) -> None:
    (house.place / "north" / "f").write_bytes(b"hello")
    known = house.store.federation()
    guard = replace(known.guard, storage_attempts=3)
    house.store.save_federation(replace(known, guard=guard), "test")
    task = house.task(inputs=(InputFile(name="f", size=5, replicas=("north-disk",)),))
    for wait in (60, 120, 240, 480, 960):
        house.take("broker")
        refused(house, task)
        for passed in (10, wait / 2 - 10, wait / 2 - 10):
            house.now += passed
            house.take("lift")
            assert house.states(task) == {JobState.PENDING: 1}, wait
        house.now += 10
        house.take("lift")
        assert house.states(task) == {JobState.DEFINED: 1}, wait
    house.take("broker")
    refused(house, task)
    assert house.states(task) == {JobState.FAILED: 1}, "three count, and three do not"


def test_f4_a_job_waits_no_longer_once_its_storage_is_well_again(house: House) -> None:
    (house.place / "north" / "f").write_bytes(b"hello")
    task = house.task(inputs=(InputFile(name="f", size=5, replicas=("north-disk",)),))
    house.take("broker")
    refused(house, task)
    house.take("lift")
    assert house.states(task) == {JobState.PENDING: 1}
    circuit_breakers.lift(house.runtime, "north-disk", "bob")
    house.take("lift")
    assert house.states(task) == {JobState.DEFINED: 1}
