"""When a task is likely to end: from the runs of its own jobs, what is ahead, and the slots in use."""

import pytest

from pilotage.model.rules.likely_ends import EARLIEST, LATEST, LikelyEnd, Progress, likely_end

RUNS = (80.0, 90.0, 100.0, 110.0, 120.0)


def interval(estimate: float, jobs: int = 5) -> LikelyEnd:
    return LikelyEnd(earliest=EARLIEST * estimate, latest=LATEST * estimate, jobs=jobs)


@pytest.mark.parametrize(
    "progress",
    [
        Progress(runs=RUNS[:4], running=(10.0,), slots=1),
        Progress(runs=RUNS),
        Progress(runs=RUNS, waiting=3),
    ],
    ids=["few finished", "none left", "nothing of its share runs"],
)
def test_nothing_is_said_where_too_little_is_known(progress: Progress) -> None:
    assert likely_end(progress) is None


def test_what_runs_ends_when_the_last_that_started_has_run_as_long_as_the_longest() -> None:
    assert likely_end(Progress(runs=RUNS, running=(20.0, 50.0), slots=2)) == interval(100)


def test_a_job_that_runs_longer_than_any_other_takes_some_time_still() -> None:
    assert likely_end(Progress(runs=(100.0,) * 5, running=(400.0,), slots=1)) == interval(0.25 * 150)


def test_what_waits_starts_once_the_slots_of_its_share_have_worked_off_what_is_ahead() -> None:
    """60 jobs of 100 s at 4 slots take 1500 s, and the last of them 120."""
    assert likely_end(Progress(runs=RUNS, waiting=20, ahead=40, slots=4)) == interval(1620)


def test_more_slots_end_it_sooner_and_more_ahead_later() -> None:
    ends = [
        likely_end(Progress(runs=RUNS, running=(50.0,), waiting=20, ahead=ahead, slots=slots))
        for ahead, slots in ((0, 8), (0, 4), (40, 4))
    ]
    latest = [end.latest for end in ends if end]
    assert len(latest) == 3
    assert latest == sorted(latest)
