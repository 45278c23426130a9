"""Why a task waits, and what is to be expected."""

import pytest

from pilotage.explain.task_waits import likely, line, waiting_cause
from pilotage.model.records.states import JobState
from pilotage.model.rules.likely_ends import LikelyEnd

J = JobState


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ({J.PENDING: 2, J.ACTIVATED: 5}, "2 jobs wait for a queue that can take them"),
        ({J.DEFINED: 3}, "3 jobs wait for the next pass of the brokerage"),
        ({J.ACTIVATED: 1}, "1 job waits for a free pilot at north"),
        ({J.ACTIVATED: 2, J.RUNNING: 3, J.SENT: 1}, "2 jobs wait for a free pilot at north while 4 run"),
        ({J.ASSIGNED: 2}, "2 jobs wait for their input files"),
    ],
)
def test_a_task_waits_for_one_thing(jobs: dict[JobState, int], text: str) -> None:
    found = waiting_cause("task:5", jobs, None, ["north"])
    assert found
    assert (found.kind, found.subject, found.text, found.mend) == ("wait", "task:5", text, "wait")
    assert waiting_cause("task:5", {J.RUNNING: 2, J.FINISHED: 9, J.THROTTLED: 1}, None, ["north"]) is None


def test_the_place_in_line_is_told_where_something_is_ahead() -> None:
    assert line("task:5", 12, 3400, "ops").text == "12 tasks with 3,400 jobs are ahead in share ops"
    assert line("task:5", 1, 1, "ops").text == "1 task with 1 job is ahead in share ops"


def test_the_likely_end_is_told_as_an_interval_with_how_often_such_ones_held() -> None:
    said = "it is likely to end in 40 min to 3 h (true in 3 of 4 such predictions), by 14 finished jobs"
    found = likely("task:5", LikelyEnd(earliest=2400, latest=10_000, jobs=14), 1000.0)
    assert (found.text, found.until) == (said, 11_000.0)
    assert "in about 2 min (" in likely("task:5", LikelyEnd(earliest=90, latest=90.2, jobs=14), 0).text
