"""Jobs whose input is gone for good fail with the file's name."""

import pytest

from pilotage.model.records.states import JobState, is_allowed
from pilotage.model.records.work import Job
from pilotage.policies.staging import lost
from pilotage.testing import job, replica, world

J = JobState


def test_jobs_that_wait_for_a_queue_fail_where_no_storage_has_an_input() -> None:
    jobs = (
        job(1, J.DEFINED, inputs=("here", "gone")),
        job(2, J.PENDING, inputs=("gone",), error="gone is altered at d"),
        job(3, J.DEFINED, inputs=("here",)),
        job(4, J.DEFINED),
        job(5, J.RUNNING, inputs=("gone",)),
    )
    decision = lost.fail(world(jobs=jobs, replicas=(replica("here", "HOME-DISK"),)))
    assert [(move.ids, move.source, move.target) for move in decision.moves] == [
        ((2,), J.PENDING, J.FAILED),
        ((1,), J.DEFINED, J.FAILED),
    ]
    for move in decision.moves:
        assert is_allowed("job", move.source, move.target)
        assert str(move.changes["error"]).startswith("input gone is gone: no storage has it;")
    assert str(decision.moves[0].changes["error"]).endswith("; its last attempt: gone is altered at d")


@pytest.mark.parametrize(
    "jobs", [(), (job(1, J.DEFINED, inputs=("here",)), job(2, J.ASSIGNED, inputs=("x",)))]
)
def test_where_nothing_is_lost_nothing_changes(jobs: tuple[Job, ...]) -> None:
    where = world(jobs=jobs, replicas=(replica("here", "HOME-DISK"),))
    assert not lost.any_lost(where)
    assert lost.fail(where).changes == ()
