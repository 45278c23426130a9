"""What pilots could not read or write because of a storage counts for its circuit breaker (F4)."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.decision import Decision, Forget
from pilotage.model.documents.world import Heartbeat, Output, Report, StorageFault, World
from pilotage.model.records.states import JobState
from pilotage.policies.pilots import reports
from pilotage.testing import NOW, federation, job, pilot, queue, task, world

FEDERATION = federation([queue("Q"), queue("FAR", site="AWAY")])
JOB = replace(job(1, JobState.RUNNING, pilot=1), queue="Q", inputs=("cms:raw",))


def receive(report: Report, *failed: FailedDelivery) -> Decision:
    where: World = world(
        FEDERATION,
        jobs=(JOB,),
        tasks=(task(),),
        pilots=(replace(pilot(), queue="Q", node="n1"),),
        heartbeats=(Heartbeat(pilot=1, holding=((1, 1),), reports=(report,)),),
        failed_deliveries=failed,
    )
    return reports.receive(where)


def reported(fault: StorageFault, *failed: FailedDelivery) -> list[Any]:
    report = Report(job=1, attempt=1, state="failed", error="\ninput raw: refused", storage_fault=fault)
    made = [one for move in receive(report, *failed).moves for one in move.creates.get(1, ())]
    return [one for one in made if isinstance(one, FailedDelivery)]


def failed_delivery(number: int, **changes: Any) -> FailedDelivery:
    told = FailedDelivery(
        job=number,
        attempt=1,
        task=number,
        node=f"n{number}",
        file=f"f{number}",
        source="AWAY-DISK",
        destination="HOME-DISK",
        time=NOW - 1,
        error="refused",
    )
    return replace(told, **changes)


@pytest.mark.parametrize(
    ("fault", "file", "end"),
    [
        (StorageFault(file="raw", source="AWAY-DISK"), "cms:raw", ("AWAY-DISK", "HOME-DISK")),
        (StorageFault(file="raw"), "cms:raw", ("HOME-DISK", "")),
        (StorageFault(file="raw", source="HOME-DISK"), "cms:raw", ("HOME-DISK", "")),
        (StorageFault(file="out", written=True), "1/out", ("", "HOME-DISK")),
    ],
)
def test_f4_a_storage_that_failed_a_pilot_is_noted(
    fault: StorageFault, file: str, end: tuple[str, str]
) -> None:
    (found,) = reported(fault)
    assert (found.file, found.end) == (file, end)
    assert (found.job, found.attempt, found.task, found.node) == (1, 1, 1, "n1")
    assert (found.time, found.error) == (NOW, "input raw: refused")


@pytest.mark.parametrize(
    "fault",
    [StorageFault(file="other"), StorageFault(file="raw", source="nowhere")],
    ids=["no input of the job", "no storage"],
)
def test_f4_what_no_job_of_the_pilot_needs_is_not_noted(fault: StorageFault) -> None:
    assert reported(fault) == []


def test_f4_what_fails_while_the_breaker_is_open_is_not_noted() -> None:
    three = [failed_delivery(number) for number in (1, 2, 3)]
    assert reported(StorageFault(file="raw", source="AWAY-DISK"), *three) == []
    assert len(reported(StorageFault(file="raw", source="AWAY-DISK"), *three[:2])) == 1


def test_f4_what_was_read_from_afar_ends_the_failures_between_the_two() -> None:
    told = failed_delivery(1), failed_delivery(2, destination="")
    running = Report(job=1, attempt=1, state="running", read_from=("AWAY-DISK", "nowhere"))
    forgotten = [one for one in receive(running, *told).changes if isinstance(one, Forget)]
    assert forgotten == [Forget(failed_at=(("AWAY-DISK", "HOME-DISK"),))]
    assert not [one for one in receive(running).changes if isinstance(one, Forget)]


def test_f4_an_output_that_was_written_closes_the_breaker_of_its_storage() -> None:
    told = failed_delivery(1, source=""), failed_delivery(2)
    done = Report(job=1, attempt=1, state="done", outputs=(Output(name="out", size=1, checksum=""),))
    forgotten = [one for one in receive(done, *told).changes if isinstance(one, Forget)]
    assert forgotten == [Forget(failed_at=(("", "HOME-DISK"),))]


def test_f4_a_job_that_a_storage_failed_waits_twice_as_long_each_time() -> None:
    fault = StorageFault(file="raw")
    error = "input raw: refused"
    report = Report(job=1, attempt=1, state="failed", error=error, kind="storage", storage_fault=fault)
    before = failed_delivery(1, attempt=0, source="HOME-DISK", destination="")
    for known, wait in (((), 60.0), ((before,), 120.0), ((replace(before, job=2),), 60.0)):
        *_, again = receive(report, *known).moves
        assert (again.source, again.target, again.next_attempt) == (JobState.FAILED, JobState.PENDING, True)
        assert again.changes["wake_at"] == NOW + wait
        assert again.cause == (
            "to be tried again, attempt 1 of 3 (1 did not count): "
            f"raw could not be read from HOME-DISK, so it waits {wait:.0f} s"
        )
    *_, at_once = receive(replace(report, storage_fault=None)).moves
    assert (at_once.target, at_once.next_attempt) == (JobState.DEFINED, True)
