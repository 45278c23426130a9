"""Throttled jobs are released as room comes: each owner's in the order of submission (rules T)."""

import random

import pytest

from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import OwnerJobs
from pilotage.model.records.states import JobState
from pilotage.model.records.work import Job, NewJob
from pilotage.model.rules.job_rooms import JobRooms
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks.throttling import admitted, released
from pilotage.testing import NOW, job, task, world

BOB = Identity(name="bob", vo="ligo")
CAROL = Identity(name="carol", vo="ligo")


def throttled(number: int, of: int) -> Job:
    return job(number, JobState.THROTTLED, of=of, since=NOW)


@pytest.mark.parametrize("seed", range(5))
def test_where_owners_share_room_each_ones_first_submitted_jobs_go(seed: int) -> None:
    """Bob has two live jobs, Carol none, and their VO has room for five more."""
    waiting = [throttled(number, of=1 + number % 3) for number in range(1, 31)]
    random.Random(seed).shuffle(waiting)
    owners = {1: BOB, 2: CAROL, 3: BOB}
    of = world(None, *(task(id_, owner=owner) for id_, owner in owners.items()), jobs=waiting)
    live = (
        OwnerJobs(owner="bob", vo="ligo", group="", live=2, throttled=20),
        OwnerJobs(owner="carol", vo="ligo", group="", live=0, throttled=10),
    )
    (move,) = released(of, JobRooms(QuotaConstants(jobs_by_user=100, jobs_by_vo=7), live), 1000)
    assert (move.source, move.target) == (JobState.THROTTLED, JobState.DEFINED)
    # Carol's catch up first. Task 1 has jobs 3, 6, 9 ..., and task 2 has 1, 4, 7 ....
    assert set(move.ids) in ({1, 4, 7, 3, 6}, {1, 4, 7, 10, 3})
    (move,) = released(of, JobRooms(QuotaConstants(jobs_by_user=100, jobs_by_vo=100), live), 14)
    assert {number for number in move.ids if number % 3 == 1} == {1, 4, 7, 10, 13, 16, 19, 22}
    assert {number for number in move.ids if number % 3 != 1} == {3, 6, 9, 12, 15, 18}


def test_new_jobs_wait_behind_throttled_ones_of_their_owner_though_there_is_room() -> None:
    """A pass releases no more than its batch: what it leaves still goes first."""
    live = (
        OwnerJobs(owner="bob", vo="ligo", group="", live=2, throttled=20),
        OwnerJobs(owner="carol", vo="ligo", group="", live=2, throttled=0),
    )
    rooms = JobRooms(QuotaConstants(jobs_by_user=100, jobs_by_vo=100), live)
    new = (NewJob(task=9, kind="normal", share="default", priority=500, requirements="[]"),) * 4
    assert [one.throttled for one in admitted(new, BOB, rooms)] == [True] * 4
    assert [one.throttled for one in admitted(new, CAROL, rooms)] == [False] * 4
    waiting = [throttled(number, of=1) for number in range(1, 21)]
    (move,) = released(world(None, task(1, owner=BOB), jobs=waiting), rooms, 19)
    assert len(move.ids) == 19
    assert [one.throttled for one in admitted(new, BOB, rooms)] == [True] * 4
    (move,) = released(world(None, task(1, owner=BOB), jobs=waiting[19:]), rooms, 19)
    assert [one.throttled for one in admitted(new, BOB, rooms)] == [False] * 4
