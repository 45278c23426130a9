"""Fast rebrokerage (rules T) in a running service, of jobs that a pilot prepares, too."""

from dataclasses import replace

from pilotage.flow.calls import report
from pilotage.model.documents.world import Report
from pilotage.model.records.constants import TimeoutConstants
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState

from .house import House, attempts, federation

J = JobState


def test_fast_rebrokerage_takes_starting_jobs_from_their_pilot_at_a_queue_of_declared_slots(
    house: House,
) -> None:
    """Jobs that the pilot prepares are the oldest; it is told to stop them, and their attempt is fenced."""
    own = ComputingElement(kind="fake", max_pilots=400)
    declared = federation(house.place, num_slots=None, computing_element=own)
    constants = TimeoutConstants(fast_rebro_threshold_nqueue={"default": 2})
    house.store.save_federation(replace(declared, name=house.name, timeouts=constants), "test")
    task = house.task(jobs=8)
    house.take("broker")
    pilot = house.pilot()
    held = attempts(house.match(pilot, 3))
    starting, running = held[:2], held[2]
    told = [Report(job=job, attempt=attempt, state="starting") for job, attempt in starting]
    begun = Report(job=running[0], attempt=running[1], state="running")
    assert report.report(house.runtime, pilot, held, [*told, begun]) == []
    assert house.states(task) == {J.ACTIVATED: 5, J.STARTING: 2, J.RUNNING: 1}
    house.now += 3600
    # A pilot that is cut off may begin what it has before it learns of anything: this one calls.
    assert report.report(house.runtime, pilot, held, []) == []
    house.take("watch")
    # Seven wait, three may beside the one that runs: of the four beyond, the oldest two are at the pilot.
    assert house.states(task) == {J.ACTIVATED: 3, J.DEFINED: 4, J.RUNNING: 1}
    assert sorted(report.report(house.runtime, pilot, held, [])) == sorted(starting)
    for job, _ in starting:
        details = house.store.queries.job(job)
        assert details is not None
        assert (details.attempt, details.queue, details.pilot) == (2, "", None)
        assert "fast rebrokerage" in details.events[-1].cause
