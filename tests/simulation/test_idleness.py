"""Empty slots beside waiting jobs: each counts once, for the first reason, and no more of them than jobs."""

import pytest

from pilotage.model.records.states import JobState
from pilotage.simulation.idleness import Empty, Idleness, empty
from pilotage.simulation.sites import SiteSlots

J = JobState


@pytest.mark.parametrize(
    ("jobs", "slots", "found"),
    [
        ({}, SiteSlots(10, 2, 3, 4), Empty()),
        ({J.ACTIVATED: 100}, SiteSlots(10, 2, 3, 4), Empty(pilot=3, batch=4, unasked=1)),
        ({J.ACTIVATED: 100}, SiteSlots(10, 10, 0, 4), Empty()),
        ({J.ACTIVATED: 100}, SiteSlots(10, 2, 0, 40), Empty(batch=8)),
        ({J.ASSIGNED: 2, J.ACTIVATED: 2}, SiteSlots(10, 2, 3, 4), Empty(pilot=2, inputs=1, batch=1)),
        ({J.DEFINED: 3}, SiteSlots(10, 2, 3, 4), Empty(pilot=3)),
        ({J.ACTIVATED: 9}, SiteSlots(0, 5, 0, 40), Empty()),
    ],
)
def test_a_slot_is_empty_for_the_first_reason_that_holds(
    jobs: dict[JobState, int], slots: SiteSlots, found: Empty
) -> None:
    assert empty(jobs, [slots]) == found


def test_slots_of_several_sites_are_added() -> None:
    sites = [SiteSlots(4, 0, 0, 0), SiteSlots(4, 4, 0, 9), SiteSlots(2, 0, 1, 9)]
    assert empty({J.ACTIVATED: 100}, sites) == Empty(pilot=1, batch=1, unasked=4)


def test_what_was_found_holds_until_slots_are_counted_again() -> None:
    idleness = Idleness()
    assert idleness.is_due(1000)
    idleness.note(1000, Empty(batch=2))
    assert not idleness.is_due(1299)
    idleness.note(1300, Empty(pilot=1))
    idleness.note(1700, Empty())
    assert idleness.seconds == {"batch": 600, "pilot": 400, "inputs": 0, "unasked": 0}
