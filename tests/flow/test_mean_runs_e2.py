"""E2 in a running service: how long payloads took at a queue is measured from what pilots tell."""

import pytest

from pilotage.model.documents.world import Report
from tests.reading import BROKERED, world_of

from .house import House, attempts


def run(house: House, *seconds: float, **told: object) -> None:
    """Run jobs to their end, which one call of their pilot tells."""
    house.task(jobs=len(seconds))
    house.take("broker")
    pilot = house.pilot()
    given = attempts(house.match(pilot, len(seconds)))
    ended = {"state": "done", **told}
    house.tell(
        pilot,
        *(
            Report(job=job, attempt=attempt, wall_seconds=wall, **ended)  # type: ignore[arg-type]
            for (job, attempt), wall in zip(given, seconds, strict=True)
        ),
    )


def measured(house: House) -> float | None:
    (report,) = world_of(house.store, BROKERED, house.now, 1, 10).queue_reports
    return report.mean_run


def test_e2_a_run_is_measured_where_no_disk_io_is(house: House) -> None:
    run(house, 600)
    assert measured(house) == 600


def test_e2_a_failed_run_says_nothing_of_others(house: House) -> None:
    run(house, 600)
    run(house, 2, state="failed", error="exit 1")
    assert measured(house) == 600


def test_e2_jobs_that_end_together_count_as_if_each_had_ended_alone(house: House) -> None:
    run(house, 100, 200, 400, disk_io=5)
    assert measured(house) == pytest.approx(119.75)
    run(house, 0, 0, 119.75, disk_io=None)
    assert measured(house) == pytest.approx(119.75)


def test_e2_no_run_is_believed_that_is_longer_than_its_pilot_may_be(house: House) -> None:
    run(house, 1e10, cpu_seconds=1e10)
    assert measured(house) == 86_400
    used = house.store.queries.job(1)
    assert used
    assert (used.wall_seconds, used.cpu_seconds) == (86_400, 8 * 86_400), "its pilot has eight cores"
