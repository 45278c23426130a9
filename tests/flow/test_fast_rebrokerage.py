"""Fast rebrokerage (rules T) in a running service, of jobs that a pilot prepares, too."""

from dataclasses import replace

import pytest

from pilotage.flow.calls.pilots import report
from pilotage.model.documents.world import Report
from pilotage.model.records.constants import TimeoutConstants
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.rebrokerage import is_pinned

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


def test_fast_rebrokerage_leaves_jobs_whose_task_names_their_queue_alone_and_they_hide_no_others(
    house: House,
) -> None:
    declared = federation(house.place, num_slots=None)
    south = replace(declared.queues[0], name="south-queue", site="south", storage="south-disk")
    constants = TimeoutConstants(fast_rebro_threshold_nqueue={"default": 2})
    queues = (*declared.queues, replace(south, computing_element=None))
    house.store.save_federation(replace(declared, name=house.name, queues=queues, timeouts=constants), "test")
    pinned = house.task(jobs=6, queues=("north-queue",))
    house.take("broker")
    house.now += 1
    free, both = house.task(jobs=3), house.task(jobs=2, queues=("north-queue", "south-queue"))
    house.take("broker")
    assert {one: house.states(one) for one in (pinned, free, both)} == {
        pinned: {J.ACTIVATED: 6},
        free: {J.ACTIVATED: 3},
        both: {J.ACTIVATED: 2},
    }
    house.now += 3600
    for _ in range(3):
        house.take("watch")
    # Of eleven that wait nine are too many: all five that may go elsewhere move.
    assert house.states(pinned) == {J.ACTIVATED: 6}
    assert (house.states(free), house.states(both)) == ({J.DEFINED: 3}, {J.DEFINED: 2})


@pytest.mark.parametrize(
    ("named", "stays"),
    [((), False), (("one",), True), (("uni",), True), (("one", "far"), False), (("gone",), True)],
)
def test_a_task_that_names_a_unified_queue_is_pinned_to_its_pseudo_queues(
    house: House, named: tuple[str, ...], stays: bool
) -> None:
    (north,) = federation(house.place).queues
    places = {"uni": "", "one": "uni", "two": "uni", "far": ""}
    queues = tuple(replace(north, name=name, parent=parent) for name, parent in places.items())
    spec = TaskSpec(name="t", queues=named)
    assert is_pinned(spec, "one", replace(federation(house.place), queues=queues)) is stays
