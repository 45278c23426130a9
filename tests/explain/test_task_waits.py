"""Why a task waits, in one sentence."""

import pytest

from pilotage.explain.task_waits import likely, line, why
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules.likely_ends import LikelyEnd

J, T = JobState, TaskState


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        ({J.PENDING: 2, J.ACTIVATED: 5}, "2 jobs wait because no queue takes them now."),
        ({J.THROTTLED: 1}, "1 job waits because a quota of jobs at work is reached."),
        ({J.DEFINED: 3}, "3 jobs wait for the next pass of the brokerage."),
        ({J.ACTIVATED: 1}, "1 job waits for a free pilot at north."),
        ({J.ACTIVATED: 2, J.RUNNING: 3, J.SENT: 1}, "2 jobs wait for a free pilot at north while 4 run."),
        ({J.ASSIGNED: 2}, "2 jobs wait for their input files."),
        ({J.RUNNING: 2, J.FINISHED: 9}, ""),
    ],
)
def test_a_task_waits_for_one_thing(jobs: dict[JobState, int], sentence: str) -> None:
    assert why(T.RUNNING, jobs, "", None, ["north"]) == sentence


def test_a_held_or_new_task_waits_for_a_person_or_the_splitter() -> None:
    assert why(T.RUNNING, {J.PENDING: 1}, "user:bob", None, ()) == "It waits because user:bob holds it."
    assert why(T.REGISTERED, {}, "", None, ()) == "It waits to be split into jobs."


def test_the_place_in_line_is_told_where_something_is_ahead() -> None:
    assert line(12, 3400, "production") == "12 tasks with 3,400 jobs are ahead in share production."
    assert line(1, 1, "production") == "1 task with 1 job is ahead in share production."
    assert line(0, 0, "production") == ""


def test_the_likely_end_is_told_as_an_interval_with_how_often_such_ones_held() -> None:
    said = "It is likely to end in 40 min to 3 h (true in 3 of 4 such predictions), by 14 finished jobs."
    assert likely(LikelyEnd(earliest=2400, latest=10_000, jobs=14)) == said
    assert "in about 2 min (" in likely(LikelyEnd(earliest=90, latest=90.2, jobs=14))
