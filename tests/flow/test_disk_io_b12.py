"""B12 in a running service: what pilots report of disk I/O refuses heavy work at a queue, and no other."""

from pilotage.model.states import JobState
from pilotage.model.world import Report

from .house import House, attempts

J = JobState


def run(house: House, disk_io: float | None, jobs: int) -> None:
    """Run jobs to their end, each with this disk I/O in kB/s per core."""
    house.task(jobs=jobs)
    house.take("broker")
    pilot = house.pilot()
    for job, attempt in attempts(house.match(pilot, jobs)):
        house.tell(pilot, Report(job=job, attempt=attempt, state="done", disk_io=disk_io))


def measured(house: House) -> float | None:
    (report,) = house.store.snapshots.for_broker(house.now, 1, 10).queue_reports
    return report.disk_io


def test_b12_the_mean_of_what_pilots_measure_closes_a_queue_to_heavy_work_alone(house: House) -> None:
    house.federate(max_disk_io=1000)
    run(house, None, 1)
    assert measured(house) is None
    run(house, 3000, 3)
    assert measured(house) == 3000
    heavy, light = house.task(disk_io=2000), house.task(disk_io=500)
    house.take("broker")
    assert (house.states(heavy), house.states(light)) == ({J.PENDING: 1}, {J.ACTIVATED: 1})
    (choice,) = house.store.queries.task_choices(heavy, 1)
    assert {refusal.rule for refusal in choice.refusals} == {"B12"}


def test_b12_the_mean_follows_what_is_measured_now(house: House) -> None:
    run(house, 3000, 1)
    run(house, 0, 60)
    mean = measured(house)
    assert mean is not None
    assert 0 < mean < 300
